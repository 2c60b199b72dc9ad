"""Transcribes the sound of videos in a persistent worker, as video2dataset's stage whisper does.

    tarvideo --audio wav --rate 16000 --channels 1 --no-video videos.tar |
      PYTHONPATH=python tarproc -p 1 --worker 'python3 python/examples/transcripts.py' -o transcripts.tar

Adds the segments, with their times in seconds, to the json as "transcript". To have a model write their texts, replace the
class Model: it is loaded once, before the first sample. With faster-whisper, for example, __init__ is
self.model = WhisperModel("small"), and transcribe calls self.model.transcribe. This one only finds the loud parts.
"""

import array
import io
import json
import sys
import wave

import tarworker


class Model:
    def __init__(self, threshold=0.02, window=0.1):
        self.threshold, self.window = threshold * 32768, window

    def transcribe(self, sound, rate):
        """Returns the segments that are louder than the threshold."""
        step, segments = int(rate * self.window), []
        for start in range(0, len(sound), step):
            part = sound[start : start + step]
            if (sum(value * value for value in part) / len(part)) ** 0.5 < self.threshold:
                continue
            if segments and segments[-1]["end"] == round(start / rate, 3):
                segments[-1]["end"] = round((start + len(part)) / rate, 3)
            else:
                segments.append({"start": round(start / rate, 3), "end": round((start + len(part)) / rate, 3), "text": "[sound]"})
        return segments


model = Model()

for sample in tarworker.samples():
    if "wav" not in sample:
        tarworker.fail("no sound")
        continue
    with wave.open(io.BytesIO(sample["wav"])) as file:
        sound, rate = array.array("h", file.readframes(file.getnframes())), file.getframerate()
    if sys.byteorder == "big":
        sound.byteswap()
    facts = json.loads(sample.get("json", b"{}"))
    facts["transcript"] = model.transcribe(sound, rate)
    sample["json"] = json.dumps(facts)
    tarworker.write(sample)
