"""WebDataset's decoders and encoders in a persistent worker: adds the mean colour of every picture.

    PYTHONPATH=python tarproc --worker 'python3 python/examples/webdataset_means.py' in.tar -o out.tar
"""

import tarworker
import webdataset
from webdataset.writer import make_encoder

decode = webdataset.autodecode.Decoder([webdataset.autodecode.imagehandler("rgb8")])
encode = make_encoder(True)

for sample in tarworker.samples():
    picture = decode(dict(sample))["jpg"]
    sample["mean.json"] = picture.mean(axis=(0, 1)).tolist()
    tarworker.write(encode(sample))
