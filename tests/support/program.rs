//! Runs the built program the way a shell does.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// What a finished run left behind.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    /// The run's JSON object.
    pub(crate) fn json(&self) -> serde_json::Value {
        assert_eq!(self.code, 0, "{}", self.stderr);
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {}", self.stdout))
    }
}

pub(crate) fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_specdec"));
    command.args(args).stdin(Stdio::null());
    command
}

pub(crate) fn specdec(args: &[&str]) -> Ran {
    let Output { status, stdout, stderr } = command(args).output().expect("the program starts");
    Ran {
        code: status.code().expect("it was not killed"),
        stdout: String::from_utf8(stdout).expect("standard output is UTF-8"),
        stderr: String::from_utf8(stderr).expect("standard error is UTF-8"),
    }
}

/// A fixture's path as an argument.
pub(crate) fn fixture(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    path.to_str().expect("the checkout's path is UTF-8").to_owned()
}

/// An empty folder of this test's own.
pub(crate) fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("the build folder is writable");
    folder
}

/// A copy of a fixture's folder that a test may damage.
pub(crate) fn copied(fixture_name: &str, name: &str) -> PathBuf {
    let folder = scratch(name);
    for entry in std::fs::read_dir(fixture(fixture_name)).expect("the fixture is there") {
        let path = entry.expect("it can be listed").path();
        std::fs::copy(&path, folder.join(path.file_name().expect("files have names")))
            .expect("it can be copied");
    }
    folder
}
