//! The names of the files that a run of ffmpeg writes into its directory.

/// The names of the output files of the n-th clip.
pub struct OutputNames {
    n: usize,
}

impl OutputNames {
    pub fn new(n: usize) -> Self {
        OutputNames { n }
    }

    pub fn media(&self, extension: &str) -> String {
        format!("m{}.{extension}", self.n)
    }

    pub fn audio(&self, extension: &str) -> String {
        format!("a{}.{extension}", self.n)
    }

    pub fn frame(&self, at: &str, extension: &str) -> String {
        format!("f{}-{at}.{extension}", self.n)
    }

    pub fn thumbnail(&self, extension: &str) -> String {
        format!("t{}.{extension}", self.n)
    }
}

/// The file that lists the scene changes.
pub const CUTS_FILE: &str = "cuts.txt";
