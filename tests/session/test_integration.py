"""The integration test of the V1 plan (task 2.2); only the model is different."""

import asyncio

from memory_semantic import MemoryStorage


async def test_basic_flow():
    # Create storage
    storage = MemoryStorage("test-agent", {"embedding_model": "local"})

    # Store memories
    id1 = await storage.store(
        "Decided to use PostgreSQL for new database", tags=["database", "decisions"]
    )
    print(f"✓ Stored memory: {id1}")

    id2 = await storage.store("API rate limit is 1000 requests per hour", tags=["api", "limits"])
    print(f"✓ Stored memory: {id2}")

    # Search
    results = await storage.search("database decisions")
    print(f"✓ Search returned {len(results)} results")

    assert len(results) >= 1
    assert "PostgreSQL" in results[0].content

    # Get by ID
    memory = await storage.get(id1)
    assert memory is not None
    assert memory.content == "Decided to use PostgreSQL for new database"

    print("✅ All tests passed!")


if __name__ == "__main__":
    asyncio.run(test_basic_flow())
