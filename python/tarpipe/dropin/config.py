"""The configs of video2dataset: reading and checking one, and the built-in ones."""

from __future__ import annotations

import ast
import copy
import json
import pathlib
from typing import Any

from .._error import UsageError

SHARED = {
    "reading": {
        "yt_args": {
            "download_size": 360,
            "download_audio_rate": 44100,
            "yt_metadata_args": {"writesubtitles": "all", "subtitleslangs": ["en"], "writeautomaticsub": True, "get_info": True},
        },
        "timeout": 60,
        "sampler": None,
    },
    "storage": {"number_sample_per_shard": 1000, "oom_shard_count": 5, "captions_are_subtitles": False},
    "distribution": {"processes_count": 16, "thread_count": 32, "subjob_size": 1000, "distributor": "multiprocessing"},
}
BUILT_IN = {
    "default": {"subsampling": {}, **SHARED},
    "downsample_ml": {
        "subsampling": {
            "ResolutionSubsampler": {"args": {"video_size": 224, "resize_mode": "scale,crop,pad"}},
            "FrameSubsampler": {"args": {"frame_rate": 5}},
            "CutDetectionSubsampler": {
                "cuts_are_clips": True,
                "args": {"cut_detection_mode": "all", "framerates": None, "threshold": 11.5, "min_scene_len": 15},
            },
            "ClippingSubsampler": {
                "args": {"min_length": 4.0, "max_length": 10.0, "max_length_strategy": "all", "precision": "keyframe_adjusted"}
            },
            "FFProbeSubsampler": {"args": {"extract_keyframes": False}},
        },
        **SHARED,
    },
}
# The arguments of each part, with the defaults of video2dataset.
PARTS: dict[str, dict[str, Any]] = {
    "ResolutionSubsampler": {"resize_mode": "", "height": -1, "width": -1, "video_size": -1, "encode_format": "mp4"},
    "FrameSubsampler": {"frame_rate": None, "downsample_method": "fps", "encode_format": "mp4"},
    "CutDetectionSubsampler": {"cut_detection_mode": "all", "framerates": None, "threshold": 27, "min_scene_len": 15},
    "ClippingSubsampler": {"min_length": 0.0, "max_length": 999999.0, "max_length_strategy": "all", "precision": "low"},
    "FFProbeSubsampler": {"extract_keyframes": False},
    "AudioRateSubsampler": {"sample_rate": None, "encode_format": None, "n_audio_channels": None},
}
# Stages and configs that are not supported, and their subsamplers.
LACKING = {"optical_flow": "optical flow", "caption": "captioning", "whisper": "speech to text"}
# The worker that does the work of each with tarproc.
EXAMPLES = {"optical_flow": "optical_flow.py", "caption": "video_captions.py", "whisper": "transcripts.py"}
LACKING_PARTS = {"OpticalFlowSubsampler": "optical_flow", "CaptionSubsampler": "caption", "WhisperSubsampler": "whisper"}
SLURM = {
    "partition": "--partition", "account": "--account", "nodelist": "--nodelist", "constraint": "--constraint",
    "exclude": "--exclude", "job_name": "--job-name", "cpus_per_task": "--cpus-per-task", "gpus_per_node": "--gpus-per-node",
}  # fmt: skip


def read_config(given):
    """Reads a config given as a name, a file, text or a dictionary."""
    if isinstance(given, str):
        refuse_lacking(f"--config {given}", given)
        config = copy.deepcopy(BUILT_IN[given]) if given in BUILT_IN else parsed(given)
    else:
        given, config = "the argument", copy.deepcopy(given)
    if not isinstance(config, dict):
        raise UsageError(f"--config: {given} is not a config; expected the sections subsampling, reading, storage and distribution")
    for section in ("subsampling", "reading", "storage", "distribution"):
        if section not in config:
            raise UsageError(f"--config: {given} has no section '{section}'")
        config[section] = config[section] or {}
    check_config(config)
    return config


def check_config(config):
    """Refuses unknown keys and values of the wrong kind."""
    check("", config, BUILT_IN["default"])
    check("storage.", config["storage"], SHARED["storage"])
    check("reading.", config["reading"], SHARED["reading"] | {"dataloader_args": {}})
    check("reading.yt_args.", config["reading"].get("yt_args") or {}, SHARED["reading"]["yt_args"], others=True)
    check("distribution.", config["distribution"], SHARED["distribution"] | {"distributor_args": {}})


def refuse_lacking(where, what):
    if what in LACKING:
        raise UsageError(
            f"{where}: {LACKING[what]} is not supported, since it needs a model; run yours with tarproc --worker "
            f"(see python/examples/{EXAMPLES[what]})"
        )


def parsed(given):
    if given.lstrip().startswith("{"):
        return literal("config", given)
    path = pathlib.Path(given)
    if not path.is_file():
        raise UsageError(f"--config: '{given}' is neither a file nor one of {', '.join(BUILT_IN)}")
    text = path.read_text()
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        import yaml
    except ImportError:
        raise UsageError(f"--config: {given}: YAML needs PyYAML: pip install pyyaml, or write the config as JSON") from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as fault:
        raise UsageError(f"--config: {given}: {' '.join(str(fault).split())}") from None


def literal(name, text):
    """Parses an object as Fire does."""
    for read in (json.loads, ast.literal_eval):
        try:
            found = read(text)
        except (ValueError, SyntaxError):
            continue
        if isinstance(found, dict):
            return found
    raise UsageError(f"--{name}: '{text}' is not an object (write {{\"video\": \"mp4\"}})")


def check(prefix, section, defaults, others=False):
    """Refuses unknown keys, and values of another type than their default."""
    for name, value in section.items():
        if name not in defaults and not others:
            raise UsageError(f"--config: unknown key '{prefix}{name}' (use {', '.join(defaults)})")
        wanted = kind_of(defaults.get(name))
        if None not in (value, wanted) and kind_of(value) != wanted:
            raise UsageError(f"--config: {prefix}{name}: {json.dumps(value, default=str)} is not {wanted}")


def kind_of(value):
    """Describes the type of a value for messages; None if any type is accepted."""
    kinds = {bool: "true or false", int: "a number", float: "a number", str: "a string", list: "a string", dict: "a mapping"}
    return kinds.get(type(value))


def subsamplers(config):
    """Returns the arguments of each requested subsampler, with defaults filled in."""
    found = {}
    for name, part in config["subsampling"].items():
        refuse_lacking(f"--config: {name}", LACKING_PARTS.get(name))
        check("subsampling.", {name: part}, PARTS)
        part = part or {}
        check(f"subsampling.{name}.", part, {"args": {}} | ({"cuts_are_clips": False} if name == "CutDetectionSubsampler" else {}))
        if name == "CutDetectionSubsampler" and "args" not in part:
            raise UsageError("--config: CutDetectionSubsampler: missing args; cuts of an earlier run cannot be used as clips")
        given = part.get("args") or {}
        check(f"subsampling.{name}.args.", given, PARTS[name])
        found[name] = PARTS[name] | {key: value for key, value in given.items() if value is not None}
    return found


def slurm_words(arguments):
    """Returns the flags of shardrun for the Slurm settings of a config."""
    plain = {"n_nodes": 1, "tasks_per_node": 1, "cache_path": "", "verbose_wait": False, "timeout": None}
    check("distribution.distributor_args.", arguments, dict.fromkeys(SLURM) | plain)
    if arguments.get("timeout"):
        raise UsageError("--config: distributor_args.timeout is not supported; remove it")
    words = [f"--slurm-arg={flag}={arguments[name]}" for name, flag in SLURM.items() if arguments.get(name)]
    at_once = int(arguments.get("n_nodes") or 1) * int(arguments.get("tasks_per_node") or 1)
    return words + ["-j", str(at_once)]
