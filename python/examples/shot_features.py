"""Maps the signals of shots to features with numpy, in a persistent worker.

    PYTHONPATH=python tarproc -p 0 --worker 'python3 python/examples/shot_features.py' shots.tar -o features.tar

Resamples the npz of a sample to a common time base, writes it back, and adds its features to the json.
"""

import io
import json

import numpy
import tarworker

TIME = numpy.arange(0.5, 5.5, 0.01)

for sample in tarworker.samples():
    shot = numpy.load(io.BytesIO(sample["npz"]))
    even = {name: numpy.interp(TIME, shot["time"], shot[name]) for name in ("ip", "density")}
    flat = even["ip"] > 0.9 * even["ip"].max()
    facts = json.loads(sample["json"])
    facts["ip_max"] = round(float(even["ip"].max()), 4)
    facts["flat_top"] = round(float(flat.sum() * 0.01), 2)
    facts["density_flat"] = round(float(even["density"][flat].mean()), 4)
    out = io.BytesIO()
    numpy.savez(out, time=TIME, **even)
    sample["npz"], sample["json"] = out.getvalue(), json.dumps(facts)
    tarworker.write(sample)
