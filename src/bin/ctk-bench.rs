//! The program that runs in each container. Everything is in the library's `bench`.

fn main() -> std::process::ExitCode {
    ctk_matrix::bench::main()
}
