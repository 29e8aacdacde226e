//! The `specdec` program. Everything is in the library.

fn main() -> std::process::ExitCode {
    specdec::cli::run()
}
