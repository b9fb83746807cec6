"""A shared record of what agents did: written over MCP, kept in PostgreSQL, and returned in bundles
of bounded size."""
