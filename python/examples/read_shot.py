"""Reads the signals of one shot for fetch --via. This example generates them; replace signals() by your archive.

    fetch --via 'python3 python/examples/read_shot.py {url} {out}' --ext npz

The URL is shot://ARCHIVE/NUMBER. With a real archive (MDSplus, HDF5, a database), signals() queries it. The message of
an exception appears in fetch's report under the key of the shot.
"""

import sys
import urllib.parse

import numpy


def signals(shot):
    """Times in seconds, plasma current in MA, density in 1e19 per cubic metre."""
    if shot % 7 == 0:
        raise LookupError(f"shot {shot} has no data")
    random = numpy.random.default_rng(shot)
    time = numpy.linspace(0, 6, 3001)
    top = random.uniform(0.4, 1.6)
    shape = numpy.clip(numpy.minimum(time, 6 - time), 0, 1)
    return {
        "time": time,
        "ip": top * shape + random.normal(0, 0.01, time.size),
        "density": 5 * shape * (1 + 0.1 * numpy.sin(3 * time)) + random.normal(0, 0.05, time.size),
    }


shot = int(urllib.parse.urlsplit(sys.argv[1]).path.strip("/"))
try:
    with open(sys.argv[2], "wb") as out:
        numpy.savez_compressed(out, **signals(shot))
except LookupError as err:
    sys.exit(str(err))
