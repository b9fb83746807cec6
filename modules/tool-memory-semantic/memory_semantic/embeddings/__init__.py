"""Texts into vectors, by the built-in model or by a service that speaks OpenAI's protocol."""
