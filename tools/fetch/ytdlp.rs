//! The recipe behind `--via yt-dlp`: which flags make it fetch one video with all that belongs to it, what
//! its files are, and what its errors mean.

use std::path::Path;
use std::process::ExitStatus;

use anyhow::{Result, bail};
use serde_json::{Map, Value};
use tarpipe::sample::Member;

use super::body::Limits;
use super::failure::{Code, Failure};

/// What is asked of yt-dlp.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Recipe {
    /// With --via yt-dlp: take the best video that is not higher than N, or the lowest there is
    #[arg(long, value_name = "N", requires = "via")]
    height: Option<u32>,

    /// With --via yt-dlp: take the best sound that has not more than HZ samples a second
    #[arg(long, value_name = "HZ", requires = "via")]
    audio_rate: Option<u32>,

    /// With --via yt-dlp: subtitles in these languages, such as en or en,de, as KEY.vtt or KEY.LANGUAGE.vtt
    #[arg(long, value_name = "LANGUAGES", requires = "via", value_parser = languages)]
    subtitles: Option<String>,

    /// With --via yt-dlp: only the part between the times in two columns, such as start,end
    ///
    /// Seconds or H:M:S.f. It is cut right to the frame, which encodes it anew.
    #[arg(long, value_name = "COLUMN,COLUMN", requires = "via", value_parser = section)]
    section: Option<(String, String)>,
}

/// What a program fetched for one URL.
pub struct Fetched {
    pub data: Vec<u8>,
    /// What came with it.
    pub extras: Vec<Member>,
}

impl From<Vec<u8>> for Fetched {
    fn from(data: Vec<u8>) -> Self {
        Fetched { data, extras: Vec::new() }
    }
}

/// Said by sites that take us for a robot, or do not serve our address or country.
const BLOCKED: [&str; 7] =
    ["not a bot", "captcha", "blocked", "rate-limit", "too many requests", "in your country", "geo restriction"];

impl Recipe {
    /// Whether these words are the recipe and not a command with places of its own.
    pub fn is_meant(words: &[String]) -> bool {
        let program = words.first().and_then(|word| Path::new(word).file_name());
        program.is_some_and(|name| name == "yt-dlp") && !words.iter().any(|word| word.contains("{url}"))
    }

    /// An error when flags of the recipe stand without it.
    pub fn refuse(&self) -> Result<()> {
        let used = self.height.is_some() || self.audio_rate.is_some();
        if used || self.subtitles.is_some() || self.section.is_some() {
            bail!("--height, --audio-rate, --subtitles and --section are for --via yt-dlp");
        }
        Ok(())
    }

    /// An error that says what to do when yt-dlp is not there.
    pub fn check(program: &str) -> Result<()> {
        match std::process::Command::new(program).arg("--version").output() {
            Err(err) if err.kind() == std::io::ErrorKind::NotFound => {
                bail!("{program} is not on the PATH: install it (pip install yt-dlp)")
            }
            Err(err) => bail!("{program}: {err}"),
            Ok(output) if !output.status.success() => bail!("{program} --version fails ({})", output.status),
            Ok(_) => Ok(()),
        }
    }

    /// The flags for one URL. Those of the user stand before them, such as --cookies and --proxy.
    pub fn words(&self, url: &str, folder: &Path, columns: &Map<String, Value>) -> Result<Vec<String>, Failure> {
        let mut words: Vec<String> =
            ["--ignore-config", "--no-playlist", "--quiet", "--no-progress", "--no-warnings", "--no-cache-dir"]
                .map(str::to_owned)
                .into();
        words.extend(["--write-info-json", "--merge-output-format", "mp4"].map(str::to_owned));
        let height = self.height.map(|height| format!("height:{height}"));
        let rate = self.audio_rate.map(|rate| format!("asr:{rate}"));
        let order: Vec<String> = height.into_iter().chain(rate).chain(["ext:mp4:m4a".to_owned()]).collect();
        words.extend(["-S".to_owned(), order.join(",")]);
        if let Some(languages) = &self.subtitles {
            words.extend(
                ["--write-subs", "--write-auto-subs", "--convert-subs", "vtt", "--sub-langs"].map(str::to_owned),
            );
            words.push(languages.clone());
        }
        if let Some((start, end)) = &self.section {
            words.extend([
                "--download-sections".to_owned(),
                format!("*{}-{}", time(columns, start)?, time(columns, end)?),
            ]);
            words.push("--force-keyframes-at-cuts".to_owned());
        }
        words.extend(["-o".to_owned(), folder.join("media.%(ext)s").to_string_lossy().into_owned()]);
        words.extend(["--".to_owned(), url.to_owned()]);
        Ok(words)
    }

    /// Picks up the files: the media, its description, its subtitles.
    pub fn collect(folder: &Path, limits: &Limits) -> Result<Fetched, Failure> {
        let mut files: Vec<(String, Vec<u8>)> = Vec::new();
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Some(rest) = name.strip_prefix("media.") else { continue };
            match entry.metadata() {
                Ok(found) if !found.is_file() => continue,
                Ok(found) if found.len() > limits.max_bytes => return Err(limits.too_large()),
                _ => {}
            }
            let data = std::fs::read(entry.path()).map_err(|err| Failure::passing(Code::Command, err.to_string()))?;
            files.push((rest.to_owned(), data));
        }
        files.sort();
        let (extras, media): (Vec<_>, Vec<_>) =
            files.into_iter().partition(|(rest, _)| rest == "info.json" || rest.ends_with("vtt"));
        let media = media.into_iter().find(|(rest, _)| !rest.ends_with("part") && !rest.ends_with("ytdl"));
        let (_, data) = media.ok_or_else(|| Failure::lasting(Code::Command, "yt-dlp made no file"))?;
        let subtitles = extras.iter().filter(|(rest, _)| rest.ends_with("vtt")).count();
        let field = |rest: &str| if subtitles == 1 && rest.ends_with("vtt") { "vtt".into() } else { rest.to_owned() };
        let extras = extras.into_iter().map(|(rest, data)| Member::new(field(&rest), data)).collect();
        Ok(Fetched { data, extras })
    }

    /// What a failed run means, by what yt-dlp said.
    pub fn judge(status: ExitStatus, complaint: &str) -> Failure {
        let line = complaint.lines().rev().find(|line| line.starts_with("ERROR:")).unwrap_or("");
        let line = line.trim_start_matches("ERROR:").trim();
        let why = if line.is_empty() { format!("{status}: no message") } else { line.to_owned() };
        let lower = why.to_lowercase();
        let http = lower.split_once("http error ").and_then(|(_, rest)| rest.get(..3)?.parse::<u16>().ok());
        let has = |words: &[&str]| words.iter().any(|words| lower.contains(words));
        match http {
            Some(403 | 429 | 451) => Failure::lasting(Code::Blocked, why),
            Some(400..=499) => Failure::lasting(Code::Http4xx, why),
            Some(500..) => Failure::passing(Code::Http5xx, why),
            _ if has(&BLOCKED) => Failure::lasting(Code::Blocked, why),
            _ if has(&["unsupported url", "unavailable", "private"]) => Failure::lasting(Code::Command, why),
            _ => Failure::passing(Code::Command, why),
        }
    }
}

/// A time in a column, which can be nothing but a time.
fn time(columns: &Map<String, Value>, name: &str) -> Result<String, Failure> {
    let value = columns.get(name).ok_or_else(|| Failure::lasting(Code::BadRow, format!("no column '{name}'")))?;
    let text = value.as_str().map_or_else(|| value.to_string(), |text| text.trim().to_owned());
    let is_time = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || b":.".contains(&b));
    if is_time { Ok(text) } else { Err(Failure::lasting(Code::BadRow, format!("column '{name}' holds no time"))) }
}

fn languages(text: &str) -> Result<String> {
    let is_list = !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b",.*-_".contains(&b));
    if is_list && !text.starts_with('-') { Ok(text.to_owned()) } else { bail!("not languages (write en or en,de)") }
}

fn section(text: &str) -> Result<(String, String)> {
    match text.split_once(',') {
        Some((start, end)) if !start.is_empty() && !end.is_empty() => Ok((start.trim().into(), end.trim().into())),
        _ => bail!("not two columns (write start,end)"),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use serde_json::json;

    use super::*;

    #[test]
    fn errors_of_sites_have_codes() {
        let judge = |said: &str| {
            let failure = Recipe::judge(ExitStatus::from_raw(256), said);
            (failure.code, failure.is_transient)
        };
        let bot = "WARNING: x\nERROR: [youtube] dQw4: Sign in to confirm you're not a bot. Use --cookies\n";
        assert_eq!(judge(bot), (Code::Blocked, false));
        assert_eq!(judge("ERROR: unable to download video data: HTTP Error 403: Forbidden"), (Code::Blocked, false));
        assert_eq!(
            judge("ERROR: [x] The uploader has not made this video available in your country"),
            (Code::Blocked, false)
        );
        assert_eq!(
            judge("ERROR: [generic] x: Unable to download webpage: HTTP Error 404: Not Found"),
            (Code::Http4xx, false)
        );
        assert_eq!(judge("ERROR: [generic] x: HTTP Error 503: Busy"), (Code::Http5xx, true));
        assert_eq!(
            judge("ERROR: [youtube] x: Private video. Sign in if you've been granted access"),
            (Code::Command, false)
        );
        assert_eq!(judge("Killed"), (Code::Command, true));
    }

    #[test]
    fn times_of_a_section_cannot_be_flags() {
        let columns = json!({"start": 1.5, "end": "0:00:04", "bad": "--exec x"});
        let columns = columns.as_object().unwrap();
        assert_eq!(
            (time(columns, "start").unwrap().as_str(), time(columns, "end").unwrap().as_str()),
            ("1.5", "0:00:04")
        );
        assert!(time(columns, "bad").is_err() && time(columns, "none").is_err());
    }
}
