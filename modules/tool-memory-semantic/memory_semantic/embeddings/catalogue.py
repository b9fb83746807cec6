"""The models that run on the user's machine through `fastembed`: their names, and what their texts
begin with. Importing this imports none of them.

A name with `/`, and the two names below, are such models unless a `base_url` says whose they are.
"""

from ..limits import LOCAL_MODEL

# The two that we recommend, by the name that a setting gives them. A store keeps the real one.
#
# English: of the models below 100 MB that fastembed lists with their published weights, the best at
# retrieval that is as small and fast as MiniLM: nDCG@10 on the 15 retrieval sets of MTEB 50.15, to
# 41.95 of all-MiniLM-L6-v2 and 51.08 of text-embedding-3-small (Snowflake-Labs/arctic-embed,
# README). Apache-2.0, 90 MB, 384 dimensions.
#
# Multilingual: the smallest of the family that reads 94 languages and was trained for retrieval
# (Wang et al. 2024, arXiv 2402.05672). MIT, 470 MB, 384 dimensions. What fastembed lists itself for
# many languages is made for paraphrases or has no layers, is not free, or takes 1.1 GB and more.
ENGLISH, MULTILINGUAL = "snowflake/snowflake-arctic-embed-xs", "intfloat/multilingual-e5-small"
RECOMMENDED = {"english": ENGLISH, "multilingual": MULTILINGUAL}

# What a question and a memory begin with, by the beginning of the model's name, as each model's
# card has it. Models that are not here want neither.
_SEARCHING = "Represent this sentence for searching relevant passages: "
_INSTRUCTED = (
    "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"
)
_PREFIXES = {
    "snowflake/snowflake-arctic-embed-": (_SEARCHING, ""),
    "BAAI/bge-small-zh": ("为这个句子生成表示以用于检索相关文章：", ""),  # noqa: RUF001 - its own colon
    "BAAI/bge-": (_SEARCHING, ""),
    "mixedbread-ai/mxbai-embed-": (_SEARCHING, ""),
    "intfloat/multilingual-e5-": ("query: ", "passage: "),
    "nomic-ai/nomic-embed-text-": ("search_query: ", "search_document: "),
    "google/embeddinggemma-": ("task: search result | query: ", "title: none | text: "),
    "Qwen/Qwen3-Embedding-": (_INSTRUCTED, ""),
}

# Models for English: of questions in Korean, Chinese or Japanese the shared words say more than
# their vectors.
_ENGLISH_ONLY = (
    *("snowflake/snowflake-arctic-embed-", "BAAI/bge-small-en", "BAAI/bge-base-en"),
    *("BAAI/bge-large-en", "sentence-transformers/all-", "thenlper/gte-", "mixedbread-ai/"),
    *("nomic-ai/", "ibm-granite/", "minishlab/potion-base", "minishlab/potion-retrieval"),
)

# What fastembed lists beside models for texts: those of images, halves of a pair of models, and one
# that has to be told a task with each text.
UNFIT = (
    *("Qdrant/clip-", "google/siglip", "jinaai/jina-clip-"),
    *("Qdrant/constella-", "Qdrant/stella-", "jinaai/jina-embeddings-v3"),
)

# Texts as people store them, of no particular subject. The mean of their vectors is what all
# vectors of a model have in common; it is taken off each of them. Without that, every two texts of
# an E5 model have a cosine above 0.7, and what is recent, or shares a word, outweighs the meaning.
SAMPLE = (
    "We chose PostgreSQL for the users table.",
    "The deploy failed because the disk was full.",
    "Anna prefers short answers with examples.",
    "Meetings about the budget are on Tuesdays.",
    "The API returns 429 when a client sends too many requests.",
    "Use tabs, not spaces, in the Go files.",
    "Das Passwort läuft nach neunzig Tagen ab.",
    "Der Kunde möchte die Rechnung per Post.",
    "Le serveur de test redémarre chaque nuit.",
    "Paul n'aime pas les longues réunions.",
    "La base de datos está en Madrid.",
    "El informe se entrega el lunes.",
    "Сборка занимает двадцать минут.",
    "Ольга отвечает за дизайн.",
    "我们决定使用深色主题。",
    "服务器的证书下个月到期。",
    "会議は毎週水曜日の午後にあります。",
    "ログは三十日間保存する。",
    "배포는 금요일 오후에 하지 않는다.",
    "지수는 녹차를 좋아한다.",
)


def real_name(model: str) -> str:
    """The name of `model` at its source: itself, unless it is one of the two recommended ones."""
    return RECOMMENDED.get(model.lower(), model)


def is_local(model: str, base_url: str | None) -> bool:
    """Whether a setting of this name, with this `base_url`, means a model of `fastembed`."""
    return not (base_url or "").strip() and "/" in real_name(model)


def english_only(model: str) -> bool:
    """Whether this model, by its real name, cannot read Korean, Chinese or Japanese."""
    return model == LOCAL_MODEL or model.startswith(_ENGLISH_ONLY)


def prefixes(model: str) -> tuple[str, str]:
    """What a question and what a memory begins with for this model, by its real name."""
    return next((pair for name, pair in _PREFIXES.items() if model.startswith(name)), ("", ""))
