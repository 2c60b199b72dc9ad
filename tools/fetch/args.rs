//! The flags, and the settings of the other modules that follow from them.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::{Parser, ValueEnum};
use hyper::header::{HeaderName, HeaderValue};
use hyper_util::client::proxy::matcher::Matcher;
use tarpipe::cli::{self, ParallelFlags, Verbosity};
use tarpipe::location;
use tarpipe::run::{program, shell};
use tarpipe::source::expand;
use tarpipe::table::TableFormat;
use tarpipe::tally::MaxFailures;
use tarpipe::value::duration;
use tarpipe::value::list::{self, List};
use tarpipe::value::nearest::did_you_mean;
use tarpipe::value::size;

use super::client::{AddressRules, BodyLimits, RequestOptions};
use super::content::HashAlgorithm;
use super::failure::FailureCode;
use super::fetcher::ytdlp::YtDlpOptions;
use super::input::RowChoice;
use super::robots::opt_out::{self, OptOutPolicy};
use super::schedule::{HostLimits, RetryPolicy, ScheduleOptions};

/// Download the URLs of a table into samples, and report failures
///
/// Reads rows (urlcat's JSON lines, or plain URLs, one per line) and writes one sample per fetched
/// row: KEY.EXT with the bytes as received, KEY.txt with the caption if there is one, KEY.json with
/// every column and the outcome of the request. Failed rows produce no sample: they are counted, and
/// --report lists them all with a stable code:
///
/// dns, connect, tls, timeout, stalled, http_3xx, http_4xx, http_429, http_5xx, too_large, too_small,
/// empty, mime, robots, opt_out, blocked_address, bad_url, redirect_loop, hash_mismatch, truncated,
/// interrupted, protocol (not HTTP), command and blocked (--via), file (file: URLs), bad_row, bad_key, duplicate_key
/// (the sample before has the same key), not_kept (fetched, but the run ended before its output was complete).
///
/// The status of all other rows is success once the output is complete, or handed_on where it is stdout, a fifo or
/// a device: whether those samples are kept is for the next program to say. If a run is stopped before it has read all
/// rows, the last row of its report has the status unread and no key.
///
/// Samples are in the order of the rows. Internal addresses (private, loopback, link-local, metadata
/// services) are refused, including after redirects and DNS lookups. Opt-out headers are honoured.
/// Proxies are taken from http_proxy, https_proxy and no_proxy.
#[derive(Parser)]
#[command(name = "fetch", version, after_long_help = EXAMPLES)]
pub struct Args {
    /// Rows to read, - for stdin; URLs to fetch; or tables, which are read as urlcat does
    ///
    /// A csv, tsv, json, parquet or arrow table, an http(s):// URL without the suffix of a table, and several names
    /// are passed to urlcat with its default flags. Anything else is read as rows: a path, a URL or pipe:COMMAND.
    #[arg(value_name = "ROWS|URL|TABLE", default_value = "-")]
    pub rows: Vec<String>,

    /// Keep N requests in flight
    #[arg(short = 'j', long, value_name = "N", default_value_t = 256, value_parser = count)]
    pub in_flight: usize,

    /// Send at most N requests to one host at a time
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = count)]
    pub per_host: usize,

    /// Send at most R requests per second to one host (0: no limit)
    #[arg(long, value_name = "R", default_value_t = 0.0)]
    pub host_rate: f64,

    /// Pause a host after N consecutive failures; its rows fail without a request meanwhile (0: never)
    ///
    /// The pause starts at 30 s and doubles each time the host fails again.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub max_host_failures: u32,

    /// Write samples as they become ready, not in the order of the rows
    #[arg(long)]
    pub unordered: bool,

    /// Read at most N rows ahead of the oldest unfinished one [default: 16 per request in flight]
    #[arg(long, value_name = "N", value_parser = count)]
    pub window: Option<usize>,

    /// Hold at most SIZE of bodies in memory; only the oldest row may exceed it
    #[arg(long, value_name = "SIZE", default_value = "112M", value_parser = size::parse)]
    pub window_bytes: u64,

    /// Give up an attempt after TIME, from the DNS lookup to the last byte, redirects included
    ///
    /// Other tools limit each read instead, so that a slow server can hold them for much longer.
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = duration::parse)]
    pub timeout: Duration,

    /// Give up connecting after TIME, TLS handshake included
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration::parse)]
    pub connect_timeout: Duration,

    /// Fail a body slower than RATE bytes per second as stalled
    #[arg(long, value_name = "RATE", default_value = "100", value_parser = size::parse)]
    pub min_rate: u64,

    /// Measure --min-rate over TIME
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration::parse)]
    pub stall_time: Duration,

    /// Refuse bodies over SIZE, before and after decompression
    #[arg(long, value_name = "SIZE", default_value = "100M", value_parser = size::parse)]
    pub max_bytes: u64,

    /// Refuse bodies under SIZE
    #[arg(long, value_name = "SIZE", default_value = "0", value_parser = size::parse)]
    pub min_bytes: u64,

    /// Accept only these media types, such as 'image/*,application/pdf'
    ///
    /// A list, separated by commas or blanks. The type is detected from the bytes; if that fails, the Content-Type
    /// header decides.
    #[arg(long, value_name = "TYPES")]
    pub accept: Vec<List>,

    /// Follow at most N redirects
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub max_redirects: usize,

    /// Retry transient failures up to N times
    ///
    /// These are dns (no answer), connect, tls (connection lost), timeout, stalled, truncated, and HTTP
    /// 408, 425, 429, 500, 502, 503 and 504.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub retries: u32,

    /// Wait TIME before the first retry and twice as long before each further one, with jitter
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration::parse)]
    pub retry_wait: Duration,

    /// Wait at most TIME; if Retry-After asks for more, the row fails
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration::parse)]
    pub max_wait: Duration,

    /// Continue the run of REPORT: fetch only the rows that it does not list as success or handed_on
    ///
    /// Keys that are not in the report are fetched only if its run ended before it had read all rows (status unread).
    /// handed_on does not say that a sample was kept: after a pipeline that failed behind fetch, use --done.
    #[arg(long, value_name = "REPORT", conflicts_with = "retry_from")]
    pub resume: Option<String>,

    /// Fetch only the rows that failed in REPORT with one of --codes
    #[arg(long, value_name = "REPORT")]
    pub retry_from: Option<String>,

    /// The codes that --retry-from retries, such as 'http_5xx timeout'
    ///
    /// A list, separated by commas or blanks. The default is all transient failures, and samples that were lost.
    #[arg(long, value_name = "CODES", requires = "retry_from", value_parser = codes)]
    #[arg(default_value = "dns connect tls timeout stalled truncated http_429 http_5xx interrupted not_kept")]
    pub codes: Vec<List>,

    /// Skip the rows whose key is in these shards, such as 'train-*.tar'
    ///
    /// After an interrupted pipeline: what is in a shard is kept, everything else is fetched. May be given several
    /// times.
    #[arg(long, value_name = "SHARDS")]
    pub done: Vec<String>,

    /// Use these name servers, such as 1.1.1.1,9.9.9.9:53, instead of the system's
    ///
    /// A list, separated by commas or blanks.
    #[arg(long, value_name = "ADDRESSES", value_parser = name_servers)]
    pub dns: Vec<List<SocketAddr>>,

    /// Honour these opt-outs in X-Robots-Tag and tdm-reservation ('none': honour none)
    ///
    /// A list, separated by commas or blanks.
    #[arg(long, value_name = "LIST", default_value = opt_out::DEFAULT)]
    pub opt_out: String,

    /// Whether to obey robots.txt
    #[arg(long, value_enum, default_value_t = RobotsMode::Ignore)]
    pub robots: RobotsMode,

    /// User-Agent to send; its first word is matched against robots.txt and opt-out headers
    #[arg(long, value_name = "TEXT", default_value = concat!("tarpipe/", env!("CARGO_PKG_VERSION")))]
    pub user_agent: String,

    /// Name to match against robots.txt and opt-out headers [default: first word of the user agent]
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,

    /// Contact address to include in the user agent: a URL or mailto: address
    ///
    /// Recommended for large crawls, so that server owners can reach you.
    #[arg(long, value_name = "URL")]
    pub contact: Option<String>,

    /// Send this header with every request; @FILE reads it from FILE, so that it does not appear in `ps`
    ///
    /// Only the scheme, host and port of the table's URL get it, not the hosts that it redirects to, and no robots.txt
    /// request has it. Accept, Accept-Charset, Accept-Encoding, Accept-Language and User-Agent go everywhere.
    #[arg(short = 'H', long, value_name = "NAME: VALUE|@FILE", value_parser = header)]
    pub header: Vec<(HeaderName, HeaderValue)>,

    /// Send -H headers, and the user and password of a URL, to the hosts of redirects too
    #[arg(long)]
    pub location_trusted: bool,

    /// Connect to private, loopback and link-local addresses too
    #[arg(long)]
    pub allow_private: bool,

    /// Never connect to the hosts, addresses and networks (CIDR) in FILE, one per line
    #[arg(long, value_name = "FILE")]
    pub block_list: Option<String>,

    /// Do not verify certificates
    #[arg(long)]
    pub insecure: bool,

    /// Read regular files too, given as file: URLs or as paths that begin with /, ./ or ../
    #[arg(long)]
    pub allow_file: bool,

    /// Hash to compute for every file
    #[arg(long, value_enum, default_value_t = HashAlgorithm::Sha256)]
    pub hash: HashAlgorithm,

    /// Fail files whose hash differs from the one in COLUMN
    #[arg(long, value_name = "COLUMN")]
    pub verify: Option<String>,

    /// Fetch each URL with COMMAND, such as 'reader {url} {out}'; yt-dlp needs no placeholders
    ///
    /// No shell is involved. {out} is the file to write; without it, stdout is read. --timeout,
    /// --max-bytes, --retries and -j apply as for requests. The program makes its own connections: the
    /// URL's address is checked before it starts, but it may connect elsewhere.
    ///
    /// yt-dlp (with its own flags, such as --cookies and --proxy) fetches the video, KEY.info.json and the
    /// subtitles. If a site refuses robots, the row fails as blocked.
    #[arg(long, value_name = "COMMAND")]
    pub via: Option<String>,

    /// With --via: request URLs with these extensions directly, such as mp4,webm
    ///
    /// A list, separated by commas or blanks.
    #[arg(long, value_name = "EXTENSIONS", requires = "via", value_parser = extensions)]
    pub direct: Vec<List>,

    #[command(flatten)]
    pub ytdlp: YtDlpOptions,

    /// Use this extension for every file instead of the detected one
    #[arg(long, value_name = "EXT", value_parser = extension)]
    pub ext: Option<String>,

    /// Write a report with one row per URL to FILE (.jsonl, .csv or .parquet)
    #[arg(long, value_name = "FILE")]
    pub report: Option<String>,

    /// Write a sample for failed rows too: only KEY.json, with status failed, tool, code and error_message
    ///
    /// For a tool at the end of the pipe that records every row, such as tardataset.
    #[arg(long)]
    pub pass_failed: bool,

    /// Write counts and rates to FILE as JSON, every 5 s and at the end
    #[arg(long, value_name = "FILE", value_parser = cli::output_name)]
    pub stats: Option<String>,

    /// Exit with status 3 if more than N rows (or P%) fail [default: if all fail]
    #[arg(long, value_name = "N|P%")]
    pub max_failures: Option<MaxFailures>,

    /// Use N threads for connections; one needs the least CPU per request
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = count)]
    pub io_threads: usize,

    #[command(flatten)]
    pub output: cli::OutputFlags,
    #[command(flatten)]
    pub parallel: ParallelFlags,
    #[command(flatten)]
    pub talk: Verbosity,
}

const EXAMPLES: &str = "Examples:
  # Download the images of a table, with a report
  urlcat laion.parquet --url-col URL --caption-col TEXT | fetch --accept 'image/*' --report report.parquet -o laion.tar

  # Fetch one file
  fetch https://example.org/cat.jpg -o cat.tar

  # Retry the transient failures
  urlcat laion.parquet --url-col URL --caption-col TEXT | fetch --retry-from report.parquet -o rest.tar

  # After Ctrl-C: fetch what is in no shard, into new shards
  urlcat laion.parquet --url-col URL --caption-col TEXT | fetch --done 'laion-*.tar' |
    tarsplit -n 10000 --start 100 -o 'laion-{shard:05}.tar'

  # Spare the servers and obey robots.txt
  fetch urls.txt --per-host 2 --host-rate 1 --robots obey -o out.tar

  # Download small videos with subtitles, using yt-dlp
  fetch videos.txt -j 4 --timeout 10m --max-bytes 2G --via yt-dlp --height 360 --subtitles en -o videos.tar

  # Use a program of your own
  fetch shots.txt -j 4 --timeout 10m --via 'python3 read_shot.py {url} {out}' --ext npz -o shots.tar";

/// The values of `--robots`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RobotsMode {
    /// Fetch it once per host and obey it.
    Obey,
    /// Do not fetch it.
    Ignore,
}

impl Args {
    /// The source of the rows: the only name if it has rows, otherwise urlcat with all names.
    pub fn source(&self) -> Result<String> {
        if let [name] = self.rows.as_slice()
            && !is_url(name)
            && !is_table(name)
            && let [name] = expand::expand(name)?.as_slice()
        {
            return Ok(name.clone());
        }
        let urlcat = program::sibling("urlcat")?;
        let quoted = self.rows.iter().map(|name| shell::quote(name)).collect::<Vec<_>>().join(" ");
        Ok(format!("pipe:{} -- {quoted}", shell::join(&urlcat)))
    }

    /// The rows to skip or to take, by --resume, --retry-from and --done.
    pub fn row_choice(&self) -> RowChoice<'_> {
        RowChoice {
            resume: self.resume.as_deref(),
            retry_from: self.retry_from.as_deref(),
            codes: list::concat(&self.codes),
            done: &self.done,
        }
    }

    /// Reads the block list.
    pub fn address_rules(&self) -> Result<AddressRules> {
        let mut rules = AddressRules::new(self.allow_private);
        if let Some(file) = &self.block_list {
            let list = std::fs::read_to_string(file).with_context(|| file.clone())?;
            rules.block(&list).with_context(|| file.clone())?;
        }
        Ok(rules)
    }

    pub fn body_limits(&self) -> BodyLimits {
        BodyLimits {
            max_bytes: self.max_bytes,
            min_bytes: self.min_bytes,
            min_rate: self.min_rate,
            stall: self.stall_time,
            accept: list::concat(&self.accept),
        }
    }

    fn full_user_agent(&self) -> String {
        let contact = self.contact.as_ref().map(|contact| format!(" (+{contact})")).unwrap_or_default();
        format!("{}{contact}", self.user_agent)
    }

    pub fn request_options(&self, rules: Arc<AddressRules>, proxies: &'static Matcher) -> RequestOptions {
        RequestOptions {
            timeout: self.timeout,
            max_redirects: self.max_redirects,
            user_agent: self.full_user_agent(),
            agent: self.agent.clone().unwrap_or_else(|| first_word(&self.user_agent)),
            headers: self.header.clone(),
            location_trusted: self.location_trusted,
            opt_out: OptOutPolicy::parse(&self.opt_out),
            obey_robots: self.robots == RobotsMode::Obey,
            limits: self.body_limits(),
            rules,
            proxies,
            per_host: self.per_host,
        }
    }

    pub fn schedule_options(&self) -> ScheduleOptions {
        let interval =
            if self.host_rate > 0.0 { Duration::from_secs_f64(1.0 / self.host_rate) } else { Duration::ZERO };
        ScheduleOptions {
            in_flight: self.in_flight,
            window: self.window.unwrap_or(self.in_flight * 16).max(self.in_flight),
            unordered: self.unordered,
            retry: RetryPolicy { retries: self.retries, wait: self.retry_wait, max_wait: self.max_wait },
            host_limits: HostLimits {
                in_flight: self.per_host,
                interval,
                max_failures: self.max_host_failures,
                pause: Duration::from_secs(30),
            },
        }
    }
}

/// The product name in a user agent.
fn first_word(user_agent: &str) -> String {
    user_agent.split(['/', ' ']).next().unwrap_or_default().to_owned()
}

/// Whether a name is a URL to fetch, not the URL of a list.
fn is_url(name: &str) -> bool {
    matches!(location::scheme(name), Some("http" | "https")) && TableFormat::from_suffix(name).is_none()
}

/// Whether a name is a table that cannot be read line by line.
fn is_table(name: &str) -> bool {
    !matches!(TableFormat::from_suffix(name), None | Some(TableFormat::Txt | TableFormat::Jsonl))
}

fn codes(text: &str) -> Result<List, String> {
    List::parse_with(text, |code| match FailureCode::ALL.iter().any(|known| known.name() == code) {
        true => Ok(code.to_owned()),
        false => {
            let known = FailureCode::ALL.iter().map(|known| known.name());
            bail!("unknown code '{code}'{}", did_you_mean(code, known))
        }
    })
}

fn count(text: &str) -> Result<usize> {
    match text.parse() {
        Ok(n @ 1..=1_000_000) => Ok(n),
        _ => bail!("expected a number from 1 to 1000000"),
    }
}

fn name_servers(text: &str) -> Result<List<SocketAddr>, String> {
    List::parse_with(text, name_server)
}

fn name_server(text: &str) -> Result<SocketAddr> {
    let plain = || text.parse::<IpAddr>().map(|address| SocketAddr::new(address, 53));
    text.parse().or_else(|_| plain()).context("expected an address such as 1.1.1.1 or 1.1.1.1:53")
}

fn header(text: &str) -> Result<(HeaderName, HeaderValue)> {
    let text = match text.strip_prefix('@') {
        Some(file) => &std::fs::read_to_string(file).map_err(|err| anyhow!("{file}: {err}"))?,
        None => text,
    };
    let (name, value) = text.split_once(':').context("expected NAME: VALUE")?;
    Ok((name.trim().parse()?, value.trim().parse()?))
}

fn extensions(text: &str) -> Result<List, String> {
    List::parse_with(text, extension)
}

fn extension(text: &str) -> Result<String> {
    let extension = text.trim_start_matches('.');
    let is_plain = !extension.is_empty() && extension.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
    if is_plain { Ok(extension.to_owned()) } else { bail!("expected an extension such as jpg") }
}
