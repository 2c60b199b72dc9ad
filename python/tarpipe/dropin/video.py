"""Translates the subsamplers of video2dataset to flags of tarvideo."""

from .._error import UsageError
from .config import PARTS
from .flags import one_of

SOUNDS = ("mp3", "flac", "wav", "m4a")
NO_LIMIT = PARTS["ClippingSubsampler"]["max_length"]
PRECISION = {"low": "copy", "keyframe_adjusted": "keyframe", "exact": "exact"}


class Plan:
    """The tarvideo stage of a pipeline."""

    def __init__(self, parts, cuts_are_clips, encode_formats, clips_from):
        """`parts` are the subsamplers, `clips_from` is the field or column that lists the clips of a sample."""
        self.words, self.encodes, self.is_frame = [], False, False
        self.video, self.sound = encode_formats.get("video"), encode_formats.get("audio")
        self.clips_from = "json.cuts" if cuts_are_clips else clips_from
        self.has_cuts = "CutDetectionSubsampler" in parts
        self.has_probe = "FFProbeSubsampler" in parts
        self.resolution(parts.get("ResolutionSubsampler"))
        self.frames(parts.get("FrameSubsampler"))
        self.cuts(parts.get("CutDetectionSubsampler"))
        self.clips(parts.get("ClippingSubsampler"))
        self.voice(parts.get("AudioRateSubsampler"))
        if parts.get("FFProbeSubsampler", {}).get("extract_keyframes"):
            raise UsageError("--config: FFProbeSubsampler: extract_keyframes is not supported")
        # It contains the frame rate, which the frame numbers of cuts refer to.
        self.words += ["--probe"] if self.has_probe or self.has_cuts else []
        if self.encodes and self.video not in (None, "mp4"):
            raise UsageError(f"--encode_formats: re-encoded video must be mp4, not {self.video}")

    def stage(self, processes, tmp_dir):
        """Returns the command; None if there is nothing to do."""
        if not self.words:
            return []
        words = ["tarvideo", *self.words, "--on-error", "pass", "-p", str(processes), "--max-sample", "4G", "--max-failures", "100%"]
        return [[*words, *(["--tmpdir", tmp_dir] if tmp_dir != "/tmp" else []), "-q"]]

    def rename(self):
        """Renames the single frame as video2dataset does."""
        kept = ["jpg=00000.jpg", *([self.sound] if self.sound else []), "json", "txt"]
        return [["tarcat", "-f", " ".join(kept), "--max-sample", "4G", "-q"]] if self.is_frame else []

    def field(self):
        return "jpg" if self.is_frame else self.video or self.sound

    def resolution(self, part):
        if part is None:
            return
        modes = part["resize_mode"] if isinstance(part["resize_mode"], (list, tuple)) else str(part["resize_mode"]).split(",")
        modes = [one_of("config: resize_mode", mode.strip(), ("scale", "crop", "pad")) for mode in modes]
        one_of("config: ResolutionSubsampler.encode_format", part["encode_format"], ("mp4",))
        size, width, height = part["video_size"], part["width"], part["height"]
        if size > 0 and (width > 0 or height > 0):
            raise UsageError("--config: Either set video_size, or set height and/or width")
        width, height = (size, size) if size > 0 else (width, height)
        for side in (width, height):
            if side > 0 and side % 2:
                raise UsageError(f"--config: ResolutionSubsampler: {side} is odd; the sides of a video must be even")
        if "scale" in modes and width <= 0 and height <= 0:
            raise UsageError("--config: ResolutionSubsampler: to scale, give video_size, height or width")
        if ("crop" in modes or "pad" in modes) and (width <= 0 or height <= 0):
            raise UsageError("--config: ResolutionSubsampler: to crop or pad, give video_size, or height and width")
        self.words += ["--scale", f"x{height}" if height > 0 else f"{width}x"] if "scale" in modes else []
        self.words += ["--crop", f"{width}x{height}"] if "crop" in modes else []
        self.words += ["--pad", f"{width}x{height}"] if "pad" in modes else []
        self.encodes = True

    def frames(self, part):
        if part is None:
            return
        one_of("config: FrameSubsampler.encode_format", part["encode_format"], ("mp4",))
        method = one_of("config: downsample_method", part["downsample_method"], ("fps", "first_frame"))
        if method == "first_frame":
            self.is_frame = True
            self.words += ["--frames", "first", "--no-video"]
        elif not isinstance(part["frame_rate"], (int, float)) or part["frame_rate"] <= 0:
            raise UsageError("--config: FrameSubsampler: frame_rate must be a positive number")
        else:
            self.words += ["--fps", f"{part['frame_rate']:g}"]
            self.encodes = True

    def cuts(self, part):
        if part is None:
            return
        one_of("config: cut_detection_mode", part["cut_detection_mode"], ("all",))
        if part["framerates"]:
            raise UsageError("--config: CutDetectionSubsampler: framerates is not supported; cuts are detected at the video's own rate")
        self.words += [f"--cuts={min(part['threshold'] / 100, 1):g}", "--min-scene", str(part["min_scene_len"])]

    def clips(self, part):
        if self.clips_from is None:
            return
        part = part or PARTS["ClippingSubsampler"]
        precision = PRECISION[one_of("config: precision", part["precision"], PRECISION)]
        strategy = one_of("config: max_length_strategy", part["max_length_strategy"], ("all", "first"))
        self.words += ["--clip", self.clips_from]
        # Re-encoded clips are cut exactly.
        self.words += ["--precision", "exact" if self.encodes or self.is_frame else precision]
        self.words += ["--min-length", f"{part['min_length']:g}"] if part["min_length"] > 0 else []
        self.words += ["--max-length", f"{part['max_length']:g}:{strategy}"] if part["max_length"] < NO_LIMIT else []

    def voice(self, part):
        if self.sound is None:
            return
        if part is not None:
            self.sound = part["encode_format"] or self.sound
        self.words += ["--audio", one_of("encode_formats: audio", self.sound, SOUNDS)]
        self.words += ["--rate", str(part["sample_rate"])] if part and part["sample_rate"] else []
        self.words += ["--channels", str(part["n_audio_channels"])] if part and part["n_audio_channels"] else []
        self.words += ["--no-video"] if self.video is None and not self.is_frame else []
