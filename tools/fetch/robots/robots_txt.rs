//! Parses robots.txt (RFC 9309): the group of our agent applies, or else that of `*`; the longest matching rule wins.

/// What the robots.txt of one origin says to our agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RobotsTxt {
    /// There is no robots.txt, or we may not read it.
    AllowAll,
    /// The server fails: the RFC asks to assume that all is disallowed.
    DenyAll,
    /// The rules for our agent.
    Rules(Vec<PathRule>),
}

/// A path pattern, and whether it allows or disallows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathRule {
    pattern: String,
    allows: bool,
}

impl RobotsTxt {
    /// The part of the file that is read: the RFC asks for at least 500 KB.
    pub const MAX_BYTES: usize = 500 << 10;

    /// The rules for `agent` in a response to the request for robots.txt.
    pub fn from_response(status: u16, text: &[u8], agent: &str) -> Self {
        match status {
            200..300 => RobotsTxt::parse(text, agent),
            500.. | 429 => RobotsTxt::DenyAll,
            _ => RobotsTxt::AllowAll,
        }
    }

    /// The rules for `agent`, a product name without its version.
    pub fn parse(text: &[u8], agent: &str) -> Self {
        let text = String::from_utf8_lossy(&text[..text.len().min(Self::MAX_BYTES)]);
        let (mut ours, mut everyones) = (Vec::new(), Vec::new());
        let (mut names_us, mut names_all, mut has_us) = (false, false, false);
        let mut in_rules = true;
        for line in text.lines() {
            let line = line.trim_start_matches('\u{feff}').split('#').next().unwrap_or_default();
            let Some((field, value)) = line.split_once(':') else { continue };
            let (field, value) = (field.trim().to_ascii_lowercase(), value.trim());
            match field.as_str() {
                "user-agent" => {
                    if std::mem::take(&mut in_rules) {
                        (names_us, names_all) = (false, false);
                    }
                    let product = value.split(['/', ' ']).next().unwrap_or_default();
                    names_all |= value == "*";
                    names_us |= product.eq_ignore_ascii_case(agent);
                    has_us |= names_us;
                }
                "allow" | "disallow" => {
                    in_rules = true;
                    let rule = PathRule { pattern: value.to_owned(), allows: field == "allow" };
                    if value.is_empty() {
                        continue;
                    }
                    if names_us {
                        ours.push(rule.clone());
                    }
                    if names_all {
                        everyones.push(rule);
                    }
                }
                _ => {}
            }
        }
        RobotsTxt::Rules(if has_us { ours } else { everyones })
    }

    /// Whether a path, including its query, may be fetched.
    pub fn allows(&self, path: &str) -> bool {
        match self {
            RobotsTxt::AllowAll => true,
            RobotsTxt::DenyAll => false,
            RobotsTxt::Rules(rules) => {
                let matching = rules.iter().filter(|rule| rule.matches(path));
                // Of two rules of the same length, the one that allows wins.
                matching.max_by_key(|rule| (rule.pattern.len(), rule.allows)).is_none_or(|rule| rule.allows)
            }
        }
    }
}

impl PathRule {
    /// `*` matches any characters, a final `$` the end of the path; without it, a matching prefix suffices.
    fn matches(&self, path: &str) -> bool {
        let (pattern, anchored) = match self.pattern.strip_suffix('$') {
            Some(pattern) => (pattern, true),
            None => (self.pattern.as_str(), false),
        };
        let mut pieces = pattern.split('*');
        let Some(mut rest) = path.strip_prefix(pieces.next().unwrap_or_default()) else { return false };
        let mut pieces = pieces.peekable();
        if anchored && pieces.peek().is_none() {
            return rest.is_empty();
        }
        while let Some(piece) = pieces.next() {
            if anchored && pieces.peek().is_none() {
                return rest.ends_with(piece);
            }
            match rest.find(piece) {
                Some(at) => rest = &rest[at + piece.len()..],
                None => return false,
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "User-agent: *\nDisallow: /private/\nAllow: /private/open\nDisallow: /*.gif$\n\n\
        User-Agent: otherbot\nUser-agent: tarpipe # us\nDisallow: /no\nDisallow:\nCrawl-delay: 5\n\nUser-agent: x\nDisallow: /\n";

    #[test]
    fn the_group_of_the_agent_applies_or_else_that_of_everyone() {
        let us = RobotsTxt::parse(TEXT.as_bytes(), "tarpipe");
        assert!(us.allows("/private/x"));
        assert!(!us.allows("/nothing"));
        let others = RobotsTxt::parse(TEXT.as_bytes(), "curl");
        assert!(!others.allows("/private/x"));
        assert!(others.allows("/private/open/x"));
        assert!(others.allows("/nothing"));
    }

    #[test]
    fn patterns_may_contain_stars_and_an_end() {
        let others = RobotsTxt::parse(TEXT.as_bytes(), "curl");
        assert!(!others.allows("/a/b.gif"));
        assert!(others.allows("/a/b.gif?x"));
        for (pattern, path, matches) in [
            ("/a*c", "/abc/d", true),
            ("/a*c$", "/abcd", false),
            ("/a$", "/a", true),
            ("/a$", "/ab", false),
            ("*", "/x", true),
            ("/**b", "/aab", true),
        ] {
            assert_eq!(PathRule { pattern: pattern.into(), allows: true }.matches(path), matches, "{pattern} {path}");
        }
    }

    #[test]
    fn an_empty_file_allows_everything() {
        assert!(RobotsTxt::parse(b"", "tarpipe").allows("/"));
        assert!(RobotsTxt::parse(b"\xff\xfe junk\nUser-agent: *\nDisallow:\n", "tarpipe").allows("/"));
        assert!(!RobotsTxt::DenyAll.allows("/"));
    }
}
