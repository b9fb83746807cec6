"""How a collection is made for a store: what the settings of `ServerConfig` come to."""

from typing import Any

from qdrant_client import models

from .info import ServerInfo
from .query import WORDS
from .settings import ServerConfig

# The fields of a point that are filtered by or sorted by, and their indexes.
INDEXES = {
    "id": models.PayloadSchemaType.KEYWORD,
    "tags": models.PayloadSchemaType.KEYWORD,
    "revision": models.PayloadSchemaType.KEYWORD,
    "timestamp": models.PayloadSchemaType.DATETIME,
}

_FLOAT16 = 2  # bytes
# The smaller copy of the vectors, which stays in memory while they are on disk.
_QUANTIZATIONS = {
    "int8": models.ScalarQuantization(
        scalar=models.ScalarQuantizationConfig(type=models.ScalarType.INT8, always_ram=True)
    ),
    "binary": models.BinaryQuantization(binary=models.BinaryQuantizationConfig(always_ram=True)),
    "none": None,
}


def parameters(info: ServerInfo, config: ServerConfig) -> dict[str, Any]:
    """What to ask the client for, beside the name, to have a collection for the store `info`."""
    size = info.model.dimensions
    vectors = models.VectorParams(
        size=size,
        distance=models.Distance.COSINE,
        datatype=models.Datatype.FLOAT16,
        on_disk=True,
    )
    words = models.SparseVectorParams(modifier=models.Modifier.IDF)
    optimizers = models.OptimizersConfigDiff(
        # In kB of vectors: smaller segments have no graph, and are compared whole.
        indexing_threshold=max(1, config.qdrant_exact_below * size * _FLOAT16 // 1024),
        # The store of an agent is small, and each segment takes files and RAM of its own.
        default_segment_number=1,
    )
    return {
        "vectors_config": {info.shard: vectors},
        "sparse_vectors_config": {WORDS: words} if info.words else None,
        "shard_number": config.qdrant_shards,
        "replication_factor": config.qdrant_replicas,
        "write_consistency_factor": config.write_consistency,
        "optimizers_config": optimizers,
        # The log of writes, of which a collection keeps two files: 32 MB each are Qdrant's own.
        "wal_config": models.WalConfigDiff(wal_capacity_mb=4),
        "quantization_config": _QUANTIZATIONS[config.qdrant_quantization],
        "metadata": info.metadata(),
    }
