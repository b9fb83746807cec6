"""What we know of the models that fastembed lists."""

# SHA-256 of the weights of `multilingual`: that of the maker's file in a dozen public repositories,
# which could not be compared with the maker's own. None is known to us of the other models.
SHA256 = {"onnx/model.onnx": "ca456c06b3a9505ddfd9131408916dd79290368331e7d76bb621f1cba6bc8665"}

# The prefixes of a question and of a memory, by the beginning of the model's name, as each model's
# card states them. Other models need neither.
_SEARCHING = "Represent this sentence for searching relevant passages: "
_INSTRUCTED = (
    "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"
)
PREFIXES = {
    "snowflake/snowflake-arctic-embed-": (_SEARCHING, ""),
    "BAAI/bge-small-zh": ("为这个句子生成表示以用于检索相关文章：", ""),  # noqa: RUF001 - its own colon
    "BAAI/bge-": (_SEARCHING, ""),
    "mixedbread-ai/mxbai-embed-": (_SEARCHING, ""),
    "intfloat/multilingual-e5-": ("query: ", "passage: "),
    "nomic-ai/nomic-embed-text-": ("search_query: ", "search_document: "),
    "google/embeddinggemma-": ("task: search result | query: ", "title: none | text: "),
    "Qwen/Qwen3-Embedding-": (_INSTRUCTED, ""),
}

# Texts as people store them. The mean of their vectors is what all vectors of a model have in
# common; it is subtracted from each. Otherwise any two texts of an E5 model have a cosine above
# 0.7, and a recent memory or a shared word outweighs the meaning.
SAMPLE = (
    *("We chose PostgreSQL for the users table.", "The deploy failed because the disk was full."),
    *("Anna prefers short answers with examples.", "Meetings about the budget are on Tuesdays."),
    *("The API answers 429 to too many requests.", "Use tabs, not spaces, in the Go files."),
    *("Das Passwort läuft nach neunzig Tagen ab.", "Der Kunde möchte die Rechnung per Post."),
    *("Le serveur de test redémarre chaque nuit.", "Paul n'aime pas les longues réunions."),
    *("La base de datos está en Madrid.", "El informe se entrega el lunes."),
    *("Сборка занимает двадцать минут.", "Ольга отвечает за дизайн."),
    *("我们决定使用深色主题。", "服务器的证书下个月到期。"),
    *("会議は毎週水曜日の午後にあります。", "ログは三十日間保存する。"),
    *("배포는 금요일 오후에 하지 않는다.", "지수는 녹차를 좋아한다."),
)

PREPARED = 1  # a part of each model's version: to be raised when PREFIXES or SAMPLE change
