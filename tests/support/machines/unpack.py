"""Unpack image archives into the store that the settings name: unpack.py FOLDER."""

import os
import sys
from pathlib import Path

from assayd.engines.oci.images import ImageStore

store = ImageStore(Path(os.environ["ASSAYD_ENGINE__IMAGES_DIR"]))
for archive in sorted(Path(sys.argv[1]).glob("*.tar")):
    print(store.load(archive).name, flush=True)
store.close()
