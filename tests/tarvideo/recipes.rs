//! The worked examples of the cookbook that need more than one tool: optical flow, and shots to features.

use std::path::Path;

use serde_json::Value;

use crate::support::{Run, bash, dir, members, venv};

const REPOSITORY: &str = env!("CARGO_MANIFEST_DIR");

/// A script in which python3 has these packages, and tarworker.py is found.
fn with_python(script: &str, packages: &[&str]) -> Run {
    let python = venv(packages);
    let path = format!("PATH={}:$PATH", python.parent().unwrap().display());
    bash(&format!("{path}; export PYTHONPATH={REPOSITORY}/python; cd {REPOSITORY}; {script}"))
}

fn json(data: &[u8]) -> Value {
    serde_json::from_slice(data).unwrap()
}

#[test]
fn optical_flow_sees_what_moves() {
    let folder = dir();
    let at = |name: &str| folder.path().join(name).display().to_string();
    // A picture that moves by 8 pixels per frame, and one that does not move.
    let noise = "testsrc2=s=256x128:r=4:d=1,trim=end_frame=1,loop=8:1:0,setpts=N/4/TB";
    let make = format!(
        "ffmpeg -v error -f lavfi -i \"{noise},crop=128:128:x=8*n:y=0\" -c:v libx264 -qp 5 {moves} && \
         ffmpeg -v error -f lavfi -i \"{noise},crop=128:128:0:0\" -c:v libx264 -qp 5 {still} && \
         tar cf {tar} -C {here} moves.mp4 still.mp4",
        moves = at("moves.mp4"),
        still = at("still.mp4"),
        tar = at("in.tar"),
        here = folder.path().display()
    );
    bash(&make).ok();
    let pipeline = format!(
        "tarvideo --scale 128 --frames 4 --no-video {} | \
         tarproc -p 2 --worker 'python3 python/examples/optical_flow.py' -o -",
        at("in.tar")
    );
    let out = members(&with_python(&pipeline, &["opencv-python-headless", "numpy"]).ok());
    let names: Vec<&str> = out.iter().map(|member| member.0.as_str()).collect();
    assert_eq!(names, ["moves.flow.npy", "moves.json", "still.flow.npy", "still.json"]);
    let motion = |data: &[u8]| -> Vec<f64> {
        json(data)["motion"].as_array().unwrap().iter().map(|pair| pair.as_f64().unwrap()).collect()
    };
    assert!(motion(&out[1].1).iter().all(|pixels| *pixels > 2.0), "{:?}", motion(&out[1].1));
    assert!(motion(&out[3].1).iter().all(|pixels| *pixels < 0.1), "{:?}", motion(&out[3].1));
    assert!(out[0].1.starts_with(b"\x93NUMPY"));
}

#[test]
fn workers_caption_and_transcribe_with_a_model() {
    let folder = dir();
    let at = |name: &str| folder.path().join(name).display().to_string();
    // A second of red and one of blue; half a second of silence, one of a tone, and half a second of silence.
    let make = format!(
        "ffmpeg -v error -f lavfi -i color=red:s=64x64:r=4:d=1 -f lavfi -i color=blue:s=64x64:r=4:d=1 \
         -f lavfi -i \"aevalsrc='0.5*sin(880*PI*t)*between(t,0.5,1.499)':s=16000:d=2\" \
         -filter_complex '[0][1]concat' -map 2:a -c:v libx264 -c:a pcm_s16le {mov} && \
         ffmpeg -v error -i {mov} -an -c copy {silent} && tar cf {tar} -C {here} a.mov silent.mov",
        mov = at("a.mov"),
        silent = at("silent.mov"),
        tar = at("in.tar"),
        here = folder.path().display()
    );
    bash(&make).ok();
    let pipeline = format!(
        "tarvideo --scale 64 --frames 1 --no-video {} | \
         tarproc -p 1 --worker 'python3 python/examples/video_captions.py' -o -",
        at("in.tar")
    );
    let out = members(&with_python(&pipeline, &["pillow"]).ok());
    let caption = "a video that is red, then blue";
    assert_eq!((out[0].0.as_str(), json(&out[0].1)["generated_caption"].as_str()), ("a.json", Some(caption)));
    assert_eq!((out[1].0.as_str(), out[1].1.as_slice()), ("a.txt", caption.as_bytes()));
    let pipeline = format!(
        "tarvideo --audio wav --rate 16000 --channels 1 --no-video {} | \
         tarproc -p 1 --max-failures 1 --worker 'python3 python/examples/transcripts.py' -o - 2>/dev/null | tarcat -f json",
        at("in.tar")
    );
    let out = members(&with_python(&pipeline, &["pillow"]).done().stdout());
    let segments = serde_json::json!([{"start": 0.5, "end": 1.5, "text": "[sound]"}]);
    assert_eq!(out.len(), 1, "the silent video fails");
    assert_eq!((out[0].0.as_str(), &json(&out[0].1)["transcript"]), ("a.json", &segments));
}

#[test]
fn shots_become_features() {
    let folder = dir();
    let report = folder.path().join("shots.jsonl").display().to_string();
    let shots = r#"seq 165920 165935 | sed 's|.*|{"key":"&","url":"shot://archive/&"}|'"#;
    let pipeline = format!(
        "{shots} | urlcat | fetch -j 8 --retries 0 --via 'python3 python/examples/read_shot.py {{url}} {{out}}' \
         --ext npz --report {report} -q | \
         tarproc -p 2 --worker 'python3 python/examples/shot_features.py' -o - | \
         tarcat --select 'json.ip_max > 1.0' -f json"
    );
    let out = members(&with_python(&pipeline, &["numpy"]).ok());
    let kept: Vec<u64> = out.iter().map(|member| member.0.trim_end_matches(".json").parse().unwrap()).collect();
    assert!(kept.is_sorted() && (3..14).contains(&kept.len()), "{kept:?}");
    for (_, data) in &out {
        let facts = json(data);
        let (most, flat) = (facts["ip_max"].as_f64().unwrap(), facts["flat_top"].as_f64().unwrap());
        assert!(most > 1.0 && most < 1.7 && (3.5..5.0).contains(&flat), "{facts}");
    }
    let lines = std::fs::read_to_string(Path::new(&report)).unwrap();
    let failed: Vec<Value> =
        lines.lines().map(|line| json(line.as_bytes())).filter(|row| row["status"] == "failed").collect();
    let told: Vec<_> =
        failed.iter().map(|row| (row["key"].as_str().unwrap(), row["error_message"].as_str().unwrap())).collect();
    let expected =
        [165921, 165928, 165935].map(|shot| (shot.to_string(), format!("exit status: 1: shot {shot} has no data")));
    assert_eq!(told, expected.each_ref().map(|(key, why)| (key.as_str(), why.as_str())));
}

#[test]
fn shots_in_two_shards_become_one_table() {
    let folder = dir();
    let place = folder.path().display();
    let pipeline = "seq $((165920 + SHARD * 8)) $((165927 + SHARD * 8)) | \
        sed 's|.*|{\"key\":\"&\",\"url\":\"shot://archive/&\"}|' | urlcat | \
        fetch -q -j 2 --timeout 5m --retries 0 --via 'python3 python/examples/read_shot.py {{url}} {{out}}' --ext npz | \
        tarproc -p 1 --worker 'python3 python/examples/shot_features.py' -o - | tarcat -f json";
    let script = format!(
        "shardrun -q --run {place}/run -n 2 -o '{place}/shots-{{}}.tar' \"$PIPELINE\" && \
         tarshow --parquet {place}/shots.parquet -f 'json.ip_max json.flat_top' {place}/shots-0.tar {place}/shots-1.tar && \
         urlcat {place}/shots.parquet --url-col __key__"
    );
    let rows = with_python(&script, &["numpy"]).env("PIPELINE", pipeline).done().status(0).stdout_text();
    // Three of the sixteen have no data.
    assert_eq!(rows.lines().count(), 13, "{rows}");
    assert!(rows.lines().all(|row| row.contains("ip_max")), "{rows}");
}
