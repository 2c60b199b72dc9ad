//! scripts/video2dataset: flags and configs, what comes out of them, and what is refused.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::web::{Web, reply};
use crate::support::{Run, bash, dir, list, members, names, run, venv};
use crate::tarvideo::{look, source};

/// Videos, and a few things that go wrong.
fn web() -> Web {
    let (land, scenes) = (source("land.mp4"), source("scenes.mp4"));
    Web::start(move |asked, wire| match asked.path.as_str() {
        "/land.mp4" | "/watch" => reply(wire, "200 OK", "Content-Type: video/mp4\r\n", &land),
        "/scenes.mp4" => reply(wire, "200 OK", "Content-Type: video/mp4\r\n", &scenes),
        "/page.mp4" => reply(wire, "200 OK", "Content-Type: text/html\r\n", b"<html>no video"),
        "/noise.mp4" => reply(wire, "200 OK", "", &[7; 5000]),
        _ => reply(wire, "404 Not Found", "", b"no"),
    })
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/video2dataset")
}

/// The script in a folder, with what every test on loopback needs. yt-dlp is not on its PATH.
fn video2dataset(folder: &Path, flags: &str) -> Run {
    let words = "--allow_private --output_folder out --output_format webdataset";
    bash(&format!("exec {} {words} {flags}", script().display())).cwd(folder).env("no_proxy", "*")
}

fn write_config(folder: &Path, subsampling: &Value) {
    let config = json!({
        "subsampling": subsampling,
        "reading": {"timeout": 20, "sampler": null, "yt_args": {"download_size": 360, "yt_metadata_args": null}},
        "storage": {"number_sample_per_shard": 10, "oom_shard_count": 5, "captions_are_subtitles": false},
        "distribution": {"processes_count": 2, "thread_count": 4, "subjob_size": 1000, "distributor": "multiprocessing"},
    });
    std::fs::write(folder.join("config.json"), config.to_string()).unwrap();
}

fn rows(folder: &Path, table: &str) -> Vec<Value> {
    let text = String::from_utf8(run("urlcat", ["--head", "100", table]).cwd(folder).ok()).unwrap();
    let mut rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    rows.sort_by_key(|row| row["key"].as_str().unwrap().to_owned());
    rows
}

fn stats(folder: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(folder.join("out/00000_stats.json")).unwrap()).unwrap()
}

fn shard(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut members = members(&std::fs::read(folder.join("out/00000.tar")).unwrap());
    members.sort();
    members
}

fn json_of(members: &[(String, Vec<u8>)], name: &str) -> Value {
    serde_json::from_slice(&members.iter().find(|member| member.0 == name).unwrap().1).unwrap()
}

#[test]
fn urls_become_a_dataset_with_a_row_for_each() {
    let (folder, web) = (dir(), web());
    let rows_in = ["land.mp4,a land", "missing.mp4,", "page.mp4,a page"].map(|row| format!("{}/{row}\n", web.url));
    std::fs::write(folder.path().join("videos.csv"), format!("link,text\n{}", rows_in.concat())).unwrap();
    let said = video2dataset(folder.path(), "--url_list videos.csv --url_col link --caption_col text").done().status(0);
    assert_eq!(said.stderr_text(), "");
    let said = said.stdout_text();
    assert!(
        said.contains("total   - success: 0.333 - failed to download: 0.667 - failed to subsample: 0.000"),
        "{said}"
    );
    let expected = [".video2dataset", "00000.parquet", "00000.tar", "00000_stats.json"];
    assert_eq!(list(folder.path().join("out")), expected);
    let members = shard(folder.path());
    let found: Vec<&str> = members.iter().map(|member| member.0.as_str()).collect();
    assert_eq!(found, ["00000000.json", "00000000.mp4", "00000000.txt"]);
    assert!(members[1].1 == source("land.mp4") && members[2].1 == b"a land");
    let facts = json!({"caption": "a land", "url": format!("{}/land.mp4", web.url), "key": "00000000",
        "status": "success", "error_message": null, "yt_meta_dict": null});
    assert_eq!(json_of(&members, "00000000.json"), facts);
    let table = rows(folder.path(), "out/00000.parquet");
    let told: Vec<_> = table.iter().map(|row| (row["status"].as_str().unwrap(), row["code"].as_str())).collect();
    let failed = "failed_to_download";
    assert_eq!(told, [("success", None), (failed, Some("http_4xx")), (failed, Some("mime"))]);
    let counts = stats(folder.path());
    let fields: Vec<&String> = counts.as_object().unwrap().keys().collect();
    let theirs = ["count", "successes", "failed_to_download", "failed_to_subsample", "duration", "bytes_downloaded"];
    assert_eq!(fields[..6], theirs);
    assert_eq!((&counts["count"], &counts["bytes_downloaded"]), (&json!(3), &json!(source("land.mp4").len())));
}

#[test]
fn clips_are_cut_scaled_and_timed_and_count_as_one_video() {
    let (folder, web) = (dir(), web());
    let row = |url: &str, spans: Value| json!({"url": format!("{}/{url}", web.url), "when": spans, "id": 7});
    let table = [
        row("land.mp4", json!([["00:00:00.500", "00:00:02.500"], ["00:00:03.000", "00:00:03.200"]])),
        row("noise.mp4", json!([["00:00:00.000", "00:00:01.000"]])),
        row("scenes.mp4", json!([["00:00:00.000", "00:00:00.100"]])),
    ];
    let lines: String = table.iter().map(|row| format!("{row}\n")).collect();
    std::fs::write(folder.path().join("videos.jsonl"), lines).unwrap();
    write_config(
        folder.path(),
        &json!({"ResolutionSubsampler": {"args": {"video_size": 96, "resize_mode": "scale,crop,pad"}},
            "FrameSubsampler": {"args": {"frame_rate": 5}}, "FFProbeSubsampler": {"args": {}},
            "ClippingSubsampler": {"args": {"min_length": 1, "precision": "keyframe_adjusted"}}}),
    );
    let flags = "--url_list videos.jsonl --input_format jsonl --clip_col when --save_additional_columns [id] --config config.json";
    video2dataset(folder.path(), flags).done().status(0).stderr("");
    let members = shard(folder.path());
    assert_eq!(names(&std::fs::read(folder.path().join("out/00000.tar")).unwrap()).len(), 2);
    assert_eq!((members[0].0.as_str(), members[1].0.as_str()), ("000000_00000.json", "000000_00000.mp4"));
    let video = look(&members[1].1);
    assert_eq!((video.size(), video.frames()), ((96, 96), 10));
    let facts = json_of(&members, "000000_00000.json");
    assert_eq!((&facts["clips"], &facts["id"]), (&json!([["00:00:00.500", "00:00:02.500"]]), &json!(7)));
    assert_eq!(facts["video_metadata"]["streams"][0]["width"], json!(320));
    let table = rows(folder.path(), "out/00000.parquet");
    let told: Vec<_> = table.iter().map(|row| (row["key"].as_str().unwrap(), row["code"].as_str())).collect();
    let short = Some("too_short");
    assert_eq!(
        told,
        [("000000_00000", None), ("000000_00001", short), ("000001", Some("decode")), ("000002_00000", short)]
    );
    let counts = stats(folder.path());
    assert_eq!((&counts["count"], &counts["successes"]), (&json!(3), &json!(1)));
    assert_eq!(counts["failed_to_subsample"], json!(2));
}

#[test]
fn cuts_are_clips_and_a_yaml_config_says_so() {
    let (folder, web) = (dir(), web());
    std::fs::write(folder.path().join("urls.txt"), format!("{}/scenes.mp4\n", web.url)).unwrap();
    let config = "subsampling:
    CutDetectionSubsampler:
        cuts_are_clips: True
        args: {threshold: 11.5, min_scene_len: 5}
reading: {timeout: 20, sampler: null}
storage: {number_sample_per_shard: 10, oom_shard_count: 5, captions_are_subtitles: False}
distribution: {processes_count: 1, thread_count: 2, subjob_size: 10, distributor: multiprocessing}
";
    std::fs::write(folder.path().join("config.yaml"), config).unwrap();
    let flags = "--allow_private --output_folder out --output_format files --url_list urls.txt --input_format txt";
    let with = |python: &str| {
        let words = format!("exec {python} {} {flags} --config config.yaml", script().display());
        bash(&words).cwd(folder.path()).env("no_proxy", "*")
    };
    let python = venv(&["pyyaml"]).display().to_string();
    with(&python).done().status(0).stderr("");
    let files = list(folder.path().join("out/00000"));
    let expected: Vec<String> =
        (0..3).flat_map(|clip| ["json", "mp4"].map(|field| format!("000000_{clip:05}.{field}"))).collect();
    assert_eq!(files, expected);
    let facts: Value =
        serde_json::from_slice(&std::fs::read(folder.path().join("out/00000/000000_00001.json")).unwrap()).unwrap();
    let cuts = json!({"original_fps": 10.0, "cuts_original_fps": [[0, 20], [20, 40], [40, 50]]});
    assert_eq!((&facts["cuts"], &facts["clips"]), (&cuts, &json!([[2.0, 4.0]])));
    assert_eq!(facts.get("video_metadata"), None);
    assert_eq!(stats(folder.path())["count"], json!(1));
    // Without PyYAML a config can be JSON; -S keeps what is installed out.
    let what =
        "video2dataset: --config: config.yaml: YAML needs PyYAML: pip install pyyaml, or write the config as JSON";
    with("python3 -S").fails(2, what);
}

#[test]
fn shards_are_processed_again_under_their_numbers() {
    let (folder, web) = (dir(), web());
    let table = format!("url,caption\n{0}/land.mp4,a land\n{0}/missing.mp4,\n", web.url);
    std::fs::write(folder.path().join("videos.csv"), table).unwrap();
    video2dataset(folder.path(), "--url_list videos.csv --caption_col caption").done().status(0);
    write_config(
        folder.path(),
        &json!({"ResolutionSubsampler": {"args": {"height": 90, "resize_mode": "scale"}},
            "AudioRateSubsampler": {"args": {"sample_rate": 16000, "encode_format": "mp3", "n_audio_channels": 1}}}),
    );
    std::fs::rename(folder.path().join("out"), folder.path().join("in")).unwrap();
    let formats = "--encode_formats '{\"video\": \"mp4\", \"audio\": \"mp3\"}'";
    let flags = format!(
        "--url_list 'in/{{00000..00000}}.tar' --input_format webdataset --stage subset {formats} --config config.json"
    );
    let shown = video2dataset(folder.path(), &format!("{flags} --dry_run")).done().status(0).stdout_text();
    assert!(shown.starts_with("tarvideo --scale x90 --audio mp3 --rate 16000 --channels 1 "), "{shown}");
    video2dataset(folder.path(), &flags).done().status(0).stderr("");
    let members = shard(folder.path());
    let found: Vec<&str> = members.iter().map(|member| member.0.as_str()).collect();
    assert_eq!(found, ["00000000.json", "00000000.mp3", "00000000.mp4", "00000000.txt"]);
    assert_eq!((look(&members[2].1).size(), members[3].1.as_slice()), ((160, 90), &b"a land"[..]));
    assert_eq!(json_of(&members, "00000000.json")["caption"], json!("a land"));
    assert_eq!(rows(folder.path(), "out/00000.parquet").len(), 1);
    assert_eq!(stats(folder.path())["successes"], json!(1));
}

#[test]
fn what_is_no_file_goes_to_ytdlp() {
    let (folder, web) = (dir(), web());
    std::fs::write(folder.path().join("urls.txt"), format!("{0}/watch\n{0}/land.mp4\n", web.url)).unwrap();
    let flags = "--url_list urls.txt --input_format txt";
    let missing = format!(
        "video2dataset: {}/watch is not a media file, and yt-dlp, which downloads from pages, is not on PATH (pip install yt-dlp)",
        web.url
    );
    let tools = crate::support::tool("fetch").parent().unwrap().display().to_string();
    let bare = format!("{tools}:/usr/bin:/bin");
    video2dataset(folder.path(), flags).env("PATH", &bare).fails(2, &missing);
    let program = venv(&["yt-dlp"]).with_file_name("yt-dlp");
    let path = format!("{}:{bare}", program.parent().unwrap().display());
    video2dataset(folder.path(), flags).env("PATH", &path).done().status(0);
    let members = shard(folder.path());
    let info = &json_of(&members, "00000000.json")["yt_meta_dict"]["info"];
    assert_eq!((&info["extractor"], info.get("formats")), (&json!("generic"), None));
    assert_eq!(json_of(&members, "00000001.json")["yt_meta_dict"], Value::Null);
    assert_eq!(members.iter().filter(|member| member.1 == source("land.mp4")).count(), 2);
}

/// The example configs of video2dataset 1.3, by name.
#[test]
fn every_example_config_plans_a_pipeline_or_is_refused_by_name() {
    let folder = dir();
    std::fs::write(folder.path().join("videos.csv"), "url\nhttp://127.0.0.1/1.mp4\n").unwrap();
    let lacking = |config: &str, what: &str, example: &str| {
        let why = "is not supported, since it needs a model; run yours with tarproc --worker (see python/examples/";
        format!("video2dataset: --config {config}: {what} {why}{example})")
    };
    let cases = [
        ("default", Ok("urlcat fetch tardataset")),
        ("downsample_ml", Ok("urlcat fetch tarvideo tardataset")),
        ("optical_flow", Err(lacking("optical_flow", "optical flow", "optical_flow.py"))),
        ("caption", Err(lacking("caption", "captioning", "video_captions.py"))),
    ];
    for (config, expected) in cases {
        let run = video2dataset(folder.path(), &format!("--url_list videos.csv --config {config} --dry_run"));
        match expected {
            Ok(stages) => {
                let shown = run.done().status(0).stdout_text();
                let tools: Vec<&str> = shown.split(" |\n  ").filter_map(|stage| stage.split(' ').next()).collect();
                assert_eq!(tools.join(" "), stages, "{config}");
            }
            Err(message) => drop(run.fails(2, &message)),
        };
    }
    let message =
        "video2dataset: --encode_formats: {} names nothing to store; name video or audio, or use --output_format dummy";
    video2dataset(folder.path(), "--url_list videos.csv --encode_formats '{}'").fails(2, message);
}

#[test]
fn local_files_are_read_on_request_and_silent_ones_have_no_audio() {
    let folder = dir();
    std::fs::write(folder.path().join("sound.mp4"), source("land.mp4")).unwrap();
    bash("ffmpeg -v error -i sound.mp4 -an -c copy silent.mp4").cwd(folder.path()).ok();
    let here = folder.path().display();
    std::fs::write(folder.path().join("urls.txt"), format!("{here}/sound.mp4\nfile://{here}/silent.mp4\n")).unwrap();
    let formats = "--encode_formats '{\"video\": \"mp4\", \"audio\": \"mp3\"}'";
    let flags = format!("--url_list urls.txt --input_format txt {formats} --incremental_mode overwrite");
    video2dataset(folder.path(), &flags).done().status(0);
    assert_eq!(stats(folder.path())["failed_to_download"], json!(2), "only with --allow_file");
    video2dataset(folder.path(), &format!("{flags} --allow_file")).done().status(0).stderr("");
    let members = shard(folder.path());
    let found: Vec<&str> = members.iter().map(|member| member.0.as_str()).collect();
    assert_eq!(found, ["00000000.json", "00000000.mp3", "00000000.mp4", "00000001.json", "00000001.mp4"]);
    let sounds = flags.replace("\"video\": \"mp4\", ", "");
    video2dataset(folder.path(), &format!("{sounds} --allow_file")).done().status(0);
    let found: Vec<String> = shard(folder.path()).into_iter().map(|member| member.0).collect();
    assert_eq!(found, ["00000000.json", "00000000.mp3"]);
    let counts = stats(folder.path());
    assert_eq!((&counts["successes"], &counts["failed_to_subsample"]), (&json!(1), &json!(1)));
}

#[test]
fn what_is_not_here_is_refused_before_anything_runs() {
    let folder = dir();
    std::fs::write(folder.path().join("videos.csv"), "url\nhttp://h/1.mp4\n").unwrap();
    let refused = |subsampling: Value, flags: &str, expected: &str| {
        write_config(folder.path(), &subsampling);
        let flags = format!("--url_list videos.csv {flags}");
        video2dataset(folder.path(), &flags).fails(2, &format!("video2dataset: {expected}"));
        assert!(!folder.path().join("out").exists());
    };
    let config = "--config config.json";
    refused(
        json!({}),
        "--stage optical_flow",
        "--stage optical_flow: optical flow is not supported, since it needs a model; run yours with tarproc --worker (see python/examples/optical_flow.py)",
    );
    refused(
        json!({}),
        "--config caption",
        "--config caption: captioning is not supported, since it needs a model; run yours with tarproc --worker (see python/examples/video_captions.py)",
    );
    refused(
        json!({"WhisperSubsampler": {}}),
        config,
        "--config: WhisperSubsampler: speech to text is not supported, since it needs a model; run yours with tarproc --worker (see python/examples/transcripts.py)",
    );
    refused(
        json!({"FrameSubsampler": {"args": {"frame_rate": 5, "downsample_method": "yt_subtitle"}}}),
        config,
        "--config: downsample_method: 'yt_subtitle' is not one of fps, first_frame",
    );
    refused(
        json!({"ResolutionSubsampler": {"args": {"video_size": 25, "resize_mode": "scale"}}}),
        config,
        "--config: ResolutionSubsampler: 25 is odd; the sides of a video must be even",
    );
    refused(
        json!({"ResolutionSubsampler": {"args": {"video_size": "224", "resize_mode": "scale"}}}),
        config,
        "--config: subsampling.ResolutionSubsampler.args.video_size: \"224\" is not a number",
    );
    refused(json!([1]), config, "--config: subsampling: [1] is not a mapping");
    refused(
        json!({"CutDetectionSubsampler": 5}),
        config,
        "--config: subsampling.CutDetectionSubsampler: 5 is not a mapping",
    );
    refused(
        json!({"ResolutionSubsampler": {"args": {"size": 24}}}),
        config,
        "--config: unknown key 'subsampling.ResolutionSubsampler.args.size' (use resize_mode, height, width, video_size, encode_format)",
    );
    refused(
        json!({}),
        "--config none.yaml",
        "--config: 'none.yaml' is neither a file nor one of default, downsample_ml",
    );
    refused(
        json!({}),
        "--encode_formats \"{'video': 'mp4', 'audio': 'ogg'}\"",
        "--encode_formats: audio: 'ogg' is not one of mp3, flac, wav, m4a",
    );
}

#[test]
fn the_first_frame_can_be_all_that_is_kept() {
    let (folder, web) = (dir(), web());
    std::fs::write(folder.path().join("urls.txt"), format!("{0}/land.mp4\n{0}/noise.mp4\n", web.url)).unwrap();
    write_config(
        folder.path(),
        &json!({"FrameSubsampler": {"args": {"frame_rate": 1, "downsample_method": "first_frame"}}}),
    );
    video2dataset(folder.path(), "--url_list urls.txt --input_format txt --config config.json").done().status(0);
    let found: Vec<String> = shard(folder.path()).into_iter().map(|member| member.0).collect();
    assert_eq!(found, ["000000.jpg", "000000.json"]);
    assert_eq!(stats(folder.path())["failed_to_subsample"], json!(1));
}
