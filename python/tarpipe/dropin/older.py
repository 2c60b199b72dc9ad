"""Flags of video2dataset before 1.3, and what they became in a config: tutorials and scripts still have them."""

from __future__ import annotations

import ast

from .._error import UsageError

# Where the value of each flag goes in a config.
PLACES = {
    "processes_count": "distribution processes_count",
    "thread_count": "distribution thread_count",
    "subjob_size": "distribution subjob_size",
    "distributor": "distribution distributor",
    "number_sample_per_shard": "storage number_sample_per_shard",
    "oom_shard_count": "storage oom_shard_count",
    "captions_are_subtitles": "storage captions_are_subtitles",
    "timeout": "reading timeout",
    "yt_metadata_args": "reading yt_args yt_metadata_args",
    "audio_rate": "reading yt_args download_audio_rate",
    "video_fps": "subsampling FrameSubsampler args frame_rate",
    "video_height": "subsampling ResolutionSubsampler args height",
    "video_width": "subsampling ResolutionSubsampler args width",
    "resize_mode": "subsampling ResolutionSubsampler args resize_mode",
    "min_clip_length": "subsampling ClippingSubsampler args min_length",
    "max_clip_length": "subsampling ClippingSubsampler args max_length",
    "max_clip_length_strategy": "subsampling ClippingSubsampler args max_length_strategy",
}


def apply_older_flags(config, flags):
    """Puts the given ones into a config."""
    given = {name: literal_of(flags[name]) for name in (*PLACES, "video_size", "strict_resize", "precise_clipping") if flags.get(name) not in (None, False)}
    for name, place in PLACES.items():
        if name in given:
            put(config, place.split(), given[name])
    if "precise_clipping" in given:
        put(config, ["subsampling", "ClippingSubsampler", "args", "precision"], "exact" if given["precise_clipping"] else "low")
    strict = given.get("strict_resize", False)
    if "video_size" in given:
        put(config, ["reading", "yt_args", "download_size"], given["video_size"])
    if strict and "video_size" not in given:
        raise UsageError("--strict_resize: needs --video_size")
    if strict:
        put(config, ["subsampling", "ResolutionSubsampler", "args", "video_size"], given["video_size"])
        part = config["subsampling"]["ResolutionSubsampler"]["args"]
        part.setdefault("resize_mode", "scale")


def put(config, path, value):
    """Sets a value, in sections that are made where they are missing or empty."""
    for name in path[:-1]:
        if config.get(name) is None:
            config[name] = {}
        config = config[name]
    config[path[-1]] = value


def literal_of(value):
    """The value of a flag of the command line, as Fire reads it."""
    if not isinstance(value, str):
        return value
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return value
