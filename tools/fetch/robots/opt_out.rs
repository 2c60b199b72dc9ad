//! Opt-outs in response headers, X-Robots-Tag and tdm-reservation, which are honoured by default.

use hyper::HeaderMap;
use tarpipe::value::list;

/// The default of --opt-out.
pub const DEFAULT: &str = "noai,noimageai,noindex,noimageindex,noml,none,tdm-reservation";

/// Directives with a value after a colon; any other word before a colon is the name of an agent.
const VALUED: [&str; 5] = ["unavailable_after", "max-snippet", "max-image-preview", "max-video-preview", "max-age"];

/// The opt-outs that a run honours.
#[derive(Clone, Debug)]
pub struct OptOutPolicy {
    directives: Vec<String>,
    reservation: bool,
}

impl OptOutPolicy {
    /// Parses a list of directives. `none` alone honours none, although it is a directive too.
    pub fn parse(text: &str) -> Self {
        let mut directives: Vec<String> = list::items(text).map(str::to_ascii_lowercase).collect();
        if directives == ["none"] {
            directives.clear();
        }
        let reservation = directives.iter().any(|word| word == "tdm-reservation");
        directives.retain(|word| word != "tdm-reservation");
        OptOutPolicy { directives, reservation }
    }

    /// The header that forbids `agent` to use this response, if there is one.
    pub fn find(&self, headers: &HeaderMap, agent: &str) -> Option<String> {
        let reserved = headers.get("tdm-reservation").is_some_and(|value| value.as_bytes().trim_ascii() == b"1");
        if self.reservation && reserved {
            return Some("tdm-reservation: 1".into());
        }
        let tags = headers.get_all("x-robots-tag").iter();
        let found =
            tags.filter_map(|value| self.directive(&String::from_utf8_lossy(value.as_bytes()), agent)).next()?;
        Some(format!("X-Robots-Tag: {found}"))
    }

    /// The first honoured directive in a header value that addresses `agent`. In `noai, otherbot: noindex, none`, the first
    /// directive addresses everyone and the other two `otherbot`.
    fn directive(&self, value: &str, agent: &str) -> Option<String> {
        let mut is_for_us = true;
        for word in value.split(',') {
            let mut word = word.trim().to_ascii_lowercase();
            if let Some((name, rest)) = word.split_once(':') {
                if VALUED.contains(&name.trim()) {
                    continue;
                }
                is_for_us = name.trim() == "*" || name.trim() == agent.to_ascii_lowercase();
                word = rest.trim().to_owned();
            }
            if is_for_us && self.directives.contains(&word) {
                return Some(word);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(list: &str, headers: &[(&'static str, &'static str)]) -> Option<String> {
        let mut map = HeaderMap::new();
        for &(name, value) in headers {
            map.append(name, value.parse().unwrap());
        }
        OptOutPolicy::parse(list).find(&map, "tarpipe")
    }

    #[test]
    fn directives_are_found_alone_in_lists_and_for_agents() {
        for yes in [
            "noai",
            "NoAI",
            "all, noimageai",
            "noai, unavailable_after: 25 Jun 2030 15:00:00 PST",
            "none",
            "noml",
            "unavailable_after: 25 Jun 2030 15:00:00 PST, noindex",
            "tarpipe: noai",
            "*: noimageindex",
            "otherbot: all, tarpipe: nofollow, noai",
        ] {
            assert!(find(DEFAULT, &[("x-robots-tag", yes)]).is_some(), "{yes}");
        }
        for no in ["all", "nofollow", "otherbot: noai", "otherbot: noai, noindex", "max-snippet: 20", "noairport", ""] {
            assert_eq!(find(DEFAULT, &[("x-robots-tag", no)]), None, "{no}");
        }
        assert_eq!(find(DEFAULT, &[("x-robots-tag", "all"), ("x-robots-tag", "noai")]).unwrap(), "X-Robots-Tag: noai");
    }

    #[test]
    fn the_user_chooses_which_opt_outs_to_honour() {
        assert_eq!(find("none", &[("x-robots-tag", "noai, none"), ("tdm-reservation", "1")]), None);
        assert_eq!(find("noai", &[("x-robots-tag", "noindex"), ("tdm-reservation", "1")]), None);
        assert!(find("noai,none", &[("x-robots-tag", "none")]).is_some());
        assert_eq!(find(DEFAULT, &[("tdm-reservation", "1")]).unwrap(), "tdm-reservation: 1");
        assert_eq!(find(DEFAULT, &[("tdm-reservation", "0")]), None);
    }
}
