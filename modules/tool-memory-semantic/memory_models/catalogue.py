"""The models that run on the user's machine through `fastembed`: their names and the prefixes of
their texts.
"""

# The two models that we recommend, under their names in a setting. A store keeps the real name.
#
# English: of the models below 100 MB that fastembed lists with their published weights, the best at
# retrieval that is as small and fast as MiniLM. Its nDCG@10 on the 15 retrieval sets of MTEB is
# 50.15; all-MiniLM-L6-v2 has 41.95, text-embedding-3-small 51.08 (Snowflake-Labs/arctic-embed,
# README). Apache-2.0, 90 MB, 384 dimensions.
#
# Multilingual: the smallest of a family that reads 94 languages and was trained for retrieval
# (Wang et al. 2024, arXiv 2402.05672). MIT, 470 MB, 384 dimensions. The multilingual models that
# fastembed itself lists are made for paraphrases, have no layers, are not free, or take 1.1 GB and
# more.
ENGLISH, MULTILINGUAL = "snowflake/snowflake-arctic-embed-xs", "intfloat/multilingual-e5-small"
RECOMMENDED = {"english": ENGLISH, "multilingual": MULTILINGUAL}

# The prefixes of a question and of a memory, by the beginning of the model's name, as each model's
# card states them. Other models need neither.
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

# Models for English: for questions in Korean, Chinese or Japanese, shared words say more than
# vectors.
_ENGLISH_ONLY = (
    *("snowflake/snowflake-arctic-embed-", "BAAI/bge-small-en", "BAAI/bge-base-en"),
    *("BAAI/bge-large-en", "sentence-transformers/all-", "thenlper/gte-", "mixedbread-ai/"),
    *("nomic-ai/", "ibm-granite/", "minishlab/potion-base", "minishlab/potion-retrieval"),
)

# What fastembed lists besides models for texts: models for images, halves of a pair of models, and
# one that has to be given a task with each text.
UNFIT = (
    *("Qdrant/clip-", "google/siglip", "jinaai/jina-clip-"),
    *("Qdrant/constella-", "Qdrant/stella-", "jinaai/jina-embeddings-v3"),
)

# Texts as people store them, on no particular subject. The mean of their vectors is what all
# vectors of a model have in common; it is subtracted from each of them. Otherwise any two texts of
# an E5 model have a cosine above 0.7, and a recent memory or a shared word outweighs the meaning.
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
    """The name of `model` at its source; it differs for the two recommended ones."""
    return RECOMMENDED.get(model.lower(), model)


def english_only(model: str) -> bool:
    """Whether this model, by its real name, cannot read Korean, Chinese or Japanese."""
    return model.startswith(_ENGLISH_ONLY)


def prefixes(model: str) -> tuple[str, str]:
    """The prefixes of a question and of a memory for this model, by its real name."""
    return next((pair for name, pair in _PREFIXES.items() if model.startswith(name)), ("", ""))
