"""What happened, shared by many agents: recorded over MCP, kept in PostgreSQL, given back in a
bundle of bounded size."""
