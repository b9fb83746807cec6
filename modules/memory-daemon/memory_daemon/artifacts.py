"""The whole of what is shown as an excerpt, page by page."""

from .access import Access
from .arguments import GetArtifact
from .database import Database
from .settings import Refused


async def get_artifact(database: Database, access: Access, request: GetArtifact) -> str:
    """A line that says where the page stands, and the page. Raises Refused."""
    async with database.transaction(access.tenant) as connection:
        found = await connection.execute(
            "SELECT bytes FROM artifacts WHERE artifact_id = %s"
            " AND visible(channel, sensitivity, actor_id, %s, %s)",
            [request.artifact_id, access.checked(request.channel), request.agent_id],
        )
        row = await found.fetchone()
    if not row:
        raise Refused(
            f"There is no artifact {request.artifact_id} that you can see. Only what is shown as "
            "an excerpt has one, under the id of its event."
        )
    text = bytes(row["bytes"]).decode()
    if request.offset >= len(text):
        raise Refused(f"The artifact ends at character {len(text):,}: take a smaller offset.")
    page = text[request.offset : request.offset + request.max_chars]
    end = request.offset + len(page)
    rest = "the end" if end == len(text) else f"go on with offset {end}"
    return (
        f"artifact {request.artifact_id}: characters {request.offset:,} to {end:,} of "
        f"{len(text):,}; {rest}\n{page}"
    )
