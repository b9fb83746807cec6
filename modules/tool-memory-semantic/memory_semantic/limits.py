"""Limits, defaults and the series of the engine, each with its reason above it.

A comment after a limit says what it counts; the module's README has those that a user meets.
"""

from datetime import timedelta

# A memory, as the tool descriptions state it. 10,000 characters of English are about 2,500 tokens,
# well inside the 8,192 that embedding models read.
MAX_CONTENT_CHARS = 10_000  # characters of content, and of a query
MAX_TAGS = 20  # tags of a memory
MAX_TAG_CHARS = 50  # characters of a tag
# What is said about a memory, such as where it came from. Every answer of the engine carries it.
MAX_METADATA = 10  # texts in the `metadata` of a memory
MAX_METADATA_CHARS = 200  # characters of such a text
# What of the user's words a memory rests on: a person reads it whole in a line or two.
MAX_QUOTE_CHARS = 300  # characters of a quote
# The name in a copy's metadata under which it says from whose store it was copied.
COPIED_FROM = "from"
# One write holds the lock and every vector at once: a thousand are about 50 MB of Python floats.
MAX_BATCH = 1_000  # texts in one `store_many`

# An answer: a question usually needs five memories; a context window can bear twenty, with 10,000
# characters of content in all.
DEFAULT_RESULTS = 5  # results of a search that names no limit
MAX_RESULTS = 20  # results of any search
MAX_ANSWER_CHARS = 10_000  # characters of content in one answer
# More than any store holds: all of them.
ALL = 2**31
# Points read or written at once, so that going through a large store takes little memory.
PAGE = 500

# Rules that the user gave, which come before the first prompt of every conversation. They are paid
# for in each, and about 40 of them fit.
PIN_BUDGET = 1_000  # tokens of rules before the first prompt, where not everything fits

# Ranking (V1 design, section 6): a memory younger than seven days is boosted by 20 %.
RECENCY_WINDOW = timedelta(days=7)
RECENCY_BOOST = 1.2
# A memory of a time that the question names is boosted by 60 %: the least that found the most in
# the tuning part of benchmarks/recall.
NAMED_BOOST = 1.6
# With the built-in model, the words that question and memory share count as much as the meaning.
# This weight found the most in the tuning part of benchmarks/recall.
LEXICAL_WEIGHT = 1.0

# From which similarity, without boosts, a memory fits; known for the built-in model alone, with the
# weight above. Measured on the sets in benchmarks/recall: of 424 memories that answer a
# question and are among its first five, none is below the first. All that a question finds is
# below the second for 1 % of the answered and 73 % of the unrelated questions; below the third for
# 4 % and 91 %: a person sees at once whether the note is right, a model may believe it.
LEAST_FIT = 0.06
FITS = 0.1
FITS_A_PERSON = 0.13

# Names and defaults of the embedding models.
DEFAULT_MODEL = "text-embedding-3-small"
LOCAL_MODEL = "local"
STATIC_MODEL = "static"
BUILT_IN_MODELS = (LOCAL_MODEL, STATIC_MODEL)
# `multilingual` in a setting: the smallest of a family that reads 94 languages and was trained for
# retrieval (Wang et al. 2024, arXiv 2402.05672); MIT, 384 dimensions. The multilingual models that
# fastembed itself lists are made for paraphrases, are not free, or take 1.1 GB and more.
MULTILINGUAL = "intfloat/multilingual-e5-small"
# From which cosine a new memory and an older one may be about the same thing, so that the older is
# shown where the new one is stored, by embedding model; and from which two found by a search may
# say it of two times. Measured on benchmarks/holds for the built-in models.
ALIKE = {LOCAL_MODEL: 0.42, STATIC_MODEL: 0.35}
ALIKE_OF_OTHERS = 0.6
SAME = {LOCAL_MODEL: 0.55, STATIC_MODEL: 0.6}
SAME_OF_OTHERS = 0.8
MOST_ALIKE = 3  # shown where a memory is stored
# The value of qdrant_url that stands for this machine, and the variable that names a server if the
# settings do not.
HERE = "local"
SERVER_VARIABLE = "AGENT_MEMORY_QDRANT_URL"
# Where the stores of all agents are, unless the settings say otherwise.
STORAGE_ROOT = "~/.amplifier/memory"
# Vector lengths: the built-in models', and those in OpenAI's documentation. The first vector of any
# other model shows its length.
DIMENSIONS = {
    LOCAL_MODEL: 640,
    STATIC_MODEL: 256,
    "text-embedding-3-small": 1536,
    "text-embedding-3-large": 3072,
    "text-embedding-ada-002": 1536,
}

# Patience: three tries at the embeddings service of at most 10 s each, and as long a wait between
# them as the service asks for, up to 10 s.
EMBEDDING_TRY_SECONDS = 10.0  # seconds for one try at the embeddings service
EMBEDDING_TRIES = 3  # tries at the embeddings service
EMBEDDING_MAX_WAIT_SECONDS = 10.0  # seconds between two tries, whatever the service asks
# Inputs per request: 32 texts of 8,192 tokens stay below OpenAI's 300,000 tokens a request.
EMBEDDING_BATCH = 32  # texts in one request to the embeddings service
# Many texts are embedded and stored in parts: an interruption loses some seconds at most.
EMBEDDED_AT_ONCE = 4 * EMBEDDING_BATCH  # texts embedded and stored at once, of many
LOCK_SECONDS = 30.0  # seconds that a call waits for other calls on the same store
# Calls in this process that embed locally or wait for a server at once; more queue up behind them.
WORKERS = 16  # calls of a process that embed locally or wait for a server at once

# A journal is written anew once it is twice as long as when it last was, and so many bytes more.
JOURNAL_SLACK = 64_000

# The engine writes through sparse maps, and a full disk under a map kills the process: stop early.
MIN_FREE_BYTES = 64 * 1024 * 1024  # of free space (67.1 MB); with less, the store is not opened

# The series of the vector engine that writes a store. It is in beta: only the same series is sure
# to read its files.
ENGINE = "qdrant-edge 0.9"
# The version of what `ranking.indexed` makes of a text: a store has that of all its texts.
INDEXED = 2
