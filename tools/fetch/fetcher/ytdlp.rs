//! `--via yt-dlp`: the flags that make yt-dlp fetch one video with its description and subtitles, the files it writes, and the
//! meaning of its errors.

use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Result, bail};
use serde_json::{Map, Value};
use tarpipe::run::captured::{self, Capture};
use tarpipe::sample::Member;

use super::FetchedData;
use crate::fetch::client::BodyLimits;
use crate::fetch::failure::{FailureCode, FetchFailure};

/// The flags of fetch that apply to yt-dlp.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct YtDlpOptions {
    /// With --via yt-dlp: fetch the best video at most N pixels high, or the smallest if there is none
    #[arg(long, value_name = "N", requires = "via")]
    height: Option<u32>,

    /// With --via yt-dlp: fetch the best audio of at most HZ samples per second
    #[arg(long, value_name = "HZ", requires = "via")]
    audio_rate: Option<u32>,

    /// With --via yt-dlp: fetch subtitles in these languages, such as en or en,de, as KEY.vtt or KEY.LANGUAGE.vtt
    #[arg(long, value_name = "LANGUAGES", requires = "via", value_parser = languages)]
    subtitles: Option<String>,

    /// With --via yt-dlp: fetch only the section between the times in two columns, such as start,end
    ///
    /// Times are seconds or H:M:S.f. The cuts are frame-accurate, so the video is re-encoded.
    #[arg(long, value_name = "COLUMN,COLUMN", requires = "via", value_parser = section)]
    section: Option<(String, String)>,
}

/// Parts of error messages of sites that take us for a robot, or do not serve our address or country.
const BLOCKED: [&str; 7] =
    ["not a bot", "captcha", "blocked", "rate-limit", "too many requests", "in your country", "geo restriction"];

impl YtDlpOptions {
    /// Fails if any of these flags is set.
    pub fn check_unused(&self) -> Result<()> {
        let used = self.height.is_some() || self.audio_rate.is_some();
        if used || self.subtitles.is_some() || self.section.is_some() {
            bail!("--height, --audio-rate, --subtitles and --section need --via yt-dlp");
        }
        Ok(())
    }

    /// The arguments for one URL. The user's own, such as --cookies and --proxy, come before them.
    pub fn arguments(
        &self,
        url: &str,
        folder: &Path,
        columns: &Map<String, Value>,
    ) -> Result<Vec<String>, FetchFailure> {
        let mut arguments: Vec<String> =
            ["--ignore-config", "--no-playlist", "--quiet", "--no-progress", "--no-warnings", "--no-cache-dir"]
                .map(str::to_owned)
                .into();
        arguments.extend(["--write-info-json", "--merge-output-format", "mp4"].map(str::to_owned));
        let height = self.height.map(|height| format!("height:{height}"));
        let rate = self.audio_rate.map(|rate| format!("asr:{rate}"));
        let order: Vec<String> = height.into_iter().chain(rate).chain(["ext:mp4:m4a".to_owned()]).collect();
        arguments.extend(["-S".to_owned(), order.join(",")]);
        if let Some(languages) = &self.subtitles {
            arguments.extend(
                ["--write-subs", "--write-auto-subs", "--convert-subs", "vtt", "--sub-langs"].map(str::to_owned),
            );
            arguments.push(languages.clone());
        }
        if let Some((start, end)) = &self.section {
            arguments.extend([
                "--download-sections".to_owned(),
                format!("*{}-{}", time(columns, start)?, time(columns, end)?),
            ]);
            arguments.push("--force-keyframes-at-cuts".to_owned());
        }
        arguments.extend(["-o".to_owned(), folder.join("media.%(ext)s").to_string_lossy().into_owned()]);
        arguments.extend(["--".to_owned(), url.to_owned()]);
        Ok(arguments)
    }
}

/// Whether a command is yt-dlp itself, rather than a command with placeholders.
pub fn is_ytdlp(argv: &[String]) -> bool {
    let program = argv.first().and_then(|arg| Path::new(arg).file_name());
    program.is_some_and(|name| name == "yt-dlp") && !argv.iter().any(|arg| arg.contains("{url}"))
}

/// Fails, with advice, if yt-dlp cannot be run.
pub fn check_installed(program: &str) -> Result<()> {
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null());
    match captured::output(command, Capture::default()) {
        Err(err) if err.kind() == std::io::ErrorKind::NotFound => {
            bail!("{program}: not found; install it (pip install yt-dlp)")
        }
        Err(err) => bail!("{program}: {err}"),
        Ok(output) if !output.is_success() => bail!("{program} --version failed: {}", output.end),
        Ok(_) => Ok(()),
    }
}

/// Reads the files that yt-dlp wrote: the media, its description, its subtitles.
pub fn collect(folder: &Path, limits: &BodyLimits) -> Result<FetchedData, FetchFailure> {
    let mut files: Vec<(String, Vec<u8>)> = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(suffix) = name.strip_prefix("media.") else { continue };
        match entry.metadata() {
            Ok(found) if !found.is_file() => continue,
            Ok(found) if found.len() > limits.max_bytes => return Err(limits.too_large()),
            _ => {}
        }
        let data = std::fs::read(entry.path())
            .map_err(|err| FetchFailure::transient(FailureCode::Command, err.to_string()))?;
        files.push((suffix.to_owned(), data));
    }
    files.sort();
    let (extras, media): (Vec<_>, Vec<_>) =
        files.into_iter().partition(|(suffix, _)| suffix == "info.json" || suffix.ends_with("vtt"));
    let media = media.into_iter().find(|(suffix, _)| !suffix.ends_with("part") && !suffix.ends_with("ytdl"));
    let (_, data) = media.ok_or_else(|| FetchFailure::permanent(FailureCode::Command, "yt-dlp wrote no media file"))?;
    let subtitles = extras.iter().filter(|(suffix, _)| suffix.ends_with("vtt")).count();
    let field = |suffix: &str| if subtitles == 1 && suffix.ends_with("vtt") { "vtt".into() } else { suffix.to_owned() };
    let extras = extras.into_iter().map(|(suffix, data)| Member::new(field(&suffix), data)).collect();
    Ok(FetchedData { data, extras })
}

/// The failure that an error message of yt-dlp means.
pub fn classify_error(status: ExitStatus, stderr: &str) -> FetchFailure {
    let line = stderr.lines().rev().find(|line| line.starts_with("ERROR:")).unwrap_or("");
    let line = line.trim_start_matches("ERROR:").trim();
    let message = if line.is_empty() { format!("{status}: no message on stderr") } else { line.to_owned() };
    let lower = message.to_lowercase();
    let http = lower.split_once("http error ").and_then(|(_, suffix)| suffix.get(..3)?.parse::<u16>().ok());
    let contains = |texts: &[&str]| texts.iter().any(|text| lower.contains(text));
    match http {
        Some(403 | 429 | 451) => FetchFailure::permanent(FailureCode::Blocked, message),
        Some(400..=499) => FetchFailure::permanent(FailureCode::Http4xx, message),
        Some(500..) => FetchFailure::transient(FailureCode::Http5xx, message),
        _ if contains(&BLOCKED) => FetchFailure::permanent(FailureCode::Blocked, message),
        _ if contains(&["unsupported url", "unavailable", "private"]) => {
            FetchFailure::permanent(FailureCode::Command, message)
        }
        _ => FetchFailure::transient(FailureCode::Command, message),
    }
}

/// The time in a column, checked: it becomes part of an argument.
fn time(columns: &Map<String, Value>, name: &str) -> Result<String, FetchFailure> {
    let value = columns
        .get(name)
        .ok_or_else(|| FetchFailure::permanent(FailureCode::BadRow, format!("missing column '{name}'")))?;
    let text = value.as_str().map_or_else(|| value.to_string(), |text| text.trim().to_owned());
    let is_time = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || b":.".contains(&b));
    if is_time {
        Ok(text)
    } else {
        Err(FetchFailure::permanent(FailureCode::BadRow, format!("column '{name}' is not a time")))
    }
}

fn languages(text: &str) -> Result<String> {
    let is_list = !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b",.*-_".contains(&b));
    if is_list && !text.starts_with('-') {
        Ok(text.to_owned())
    } else {
        bail!("not a list of languages; write en or en,de")
    }
}

fn section(text: &str) -> Result<(String, String)> {
    match text.split_once(',') {
        Some((start, end)) if !start.is_empty() && !end.is_empty() => Ok((start.trim().into(), end.trim().into())),
        _ => bail!("not two columns; write start,end"),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use serde_json::json;

    use super::*;

    #[test]
    fn errors_of_sites_are_classified() {
        let classify = |stderr: &str| {
            let failure = classify_error(ExitStatus::from_raw(256), stderr);
            (failure.code, failure.is_transient)
        };
        let bot = "WARNING: x\nERROR: [youtube] dQw4: Sign in to confirm you're not a bot. Use --cookies\n";
        assert_eq!(classify(bot), (FailureCode::Blocked, false));
        assert_eq!(
            classify("ERROR: unable to download video data: HTTP Error 403: Forbidden"),
            (FailureCode::Blocked, false)
        );
        assert_eq!(
            classify("ERROR: [x] The uploader has not made this video available in your country"),
            (FailureCode::Blocked, false)
        );
        assert_eq!(
            classify("ERROR: [generic] x: Unable to download webpage: HTTP Error 404: Not Found"),
            (FailureCode::Http4xx, false)
        );
        assert_eq!(classify("ERROR: [generic] x: HTTP Error 503: Busy"), (FailureCode::Http5xx, true));
        assert_eq!(
            classify("ERROR: [youtube] x: Private video. Sign in if you've been granted access"),
            (FailureCode::Command, false)
        );
        assert_eq!(classify("Killed"), (FailureCode::Command, true));
    }

    #[test]
    fn times_of_a_section_cannot_inject_flags() {
        let columns = json!({"start": 1.5, "end": "0:00:04", "bad": "--exec x"});
        let columns = columns.as_object().unwrap();
        assert_eq!(
            (time(columns, "start").unwrap().as_str(), time(columns, "end").unwrap().as_str()),
            ("1.5", "0:00:04")
        );
        assert!(time(columns, "bad").is_err() && time(columns, "none").is_err());
    }
}
