//! The other side of the fake driver's tests: a child process that carries out a script of driver calls.
//! The main types are [`Driver`], which starts one, and [`Client`], which is in it.
//!
//! The driver reads its environment once, hangs and dies, so each script runs in a process of its own: this very test
//! program, told to run the one test that is a [`Client`]. Answers go to a file, line by line, so that those before a
//! crash are there.
#![expect(unsafe_code, reason = "calls C functions of a library that is opened at run time")]

use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::ptr;
use std::time::{Duration, Instant};

use libloading::os::unix::Library;

const SCRIPT: &str = "CTK_FAKE_TEST_SCRIPT";
const ANSWERS: &str = "CTK_FAKE_TEST_ANSWERS";

/// How long a command may take. Far more than any needs that ends at all.
const PATIENCE: Duration = Duration::from_mins(1);

/// Another library to call instead, for one purpose: to put the scripts that need no settings to a real driver.
/// `CTK_FAKE_TEST_LIBRARY=libcuda.so.1 cargo test --test fake_driver an_h200` says whether this machine's agrees.
const LIBRARY: &str = "CTK_FAKE_TEST_LIBRARY";

/// The library that cargo builds beside the tests.
fn library() -> PathBuf {
    if let Some(other) = std::env::var_os(LIBRARY) {
        return other.into();
    }
    let program = std::env::current_exe().expect("a running program has a path");
    let folder = program.ancestors().nth(2).expect("tests are in target/PROFILE/deps");
    let library = folder.join("examples/libfake_driver.so");
    assert!(library.exists(), "{} is missing: cargo build --example fake_driver", library.display());
    library
}

/// A fake driver to be: the environment of a child.
pub(crate) struct Driver {
    environment: Vec<(String, String)>,
    patience: Duration,
}

/// How a script ended.
pub(crate) struct Ended {
    /// One line an answer.
    pub(crate) answers: String,
    /// What else was printed on stdout.
    pub(crate) stdout: String,
    /// What was printed on stderr.
    pub(crate) stderr: String,
    /// The process's end; nothing if it did not end and was killed.
    pub(crate) status: Option<ExitStatus>,
}

/// A driver with these settings and the defaults.
pub(crate) fn driver(settings: &[(&str, &str)]) -> Driver {
    let environment = settings.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    Driver { environment, patience: PATIENCE }
}

impl Driver {
    /// Waits only so long for each answer.
    pub(crate) fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// The answers to a script that must end well.
    pub(crate) fn answers(&self, script: &str) -> String {
        let ended = self.run(script);
        let well = ended.status.is_some_and(|status| status.success());
        assert!(well, "{:?}\n{}\n{}\n{}", ended.status, ended.answers, ended.stdout, ended.stderr);
        ended.answers
    }

    /// Runs a script: one command a line, or between semicolons.
    pub(crate) fn run(&self, script: &str) -> Ended {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = |name: &str| folder.path().join(name);
        let open = |name: &str| fs::File::create(file(name)).expect("a file in a temporary folder");
        let mut command = Command::new(std::env::current_exe().expect("a running program has a path"));
        for (name, _) in std::env::vars() {
            if name.starts_with("CTK_FAKE_") || name.starts_with("CUDA_") {
                command.env_remove(name);
            }
        }
        let mut child = command
            .args(["--exact", "client", "--ignored", "--nocapture", "--test-threads=1"])
            .envs(self.environment.iter().cloned())
            .env(SCRIPT, script)
            .env(ANSWERS, file("answers"))
            .stdin(Stdio::null())
            .stdout(open("stdout"))
            .stderr(open("stderr"))
            .spawn()
            .expect("this test program starts");
        // The clock starts anew with each answer, and a process that has not answered yet may still be starting.
        let (mut since, mut seen) = (Instant::now(), 0);
        let status = loop {
            let status = child.try_wait().expect("a child can be waited for");
            let answered = fs::metadata(file("answers")).map_or(0, |file| file.len());
            if answered != seen {
                (since, seen) = (Instant::now(), answered);
            }
            let patience = if seen == 0 { PATIENCE } else { self.patience };
            if status.is_some() || since.elapsed() > patience {
                break status;
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        if status.is_none() {
            child.kill().and_then(|()| child.wait()).expect("a child can be killed");
        }
        let read = |name: &str| {
            fs::read(file(name)).map_or_else(|_| String::new(), |text| String::from_utf8_lossy(&text).into())
        };
        Ended { answers: read("answers"), stdout: read("stdout"), stderr: read("stderr"), status }
    }
}

/// The child: a user of the driver.
struct Client {
    library: Library,
    module: usize,
    function: usize,
    stream: usize,
    /// Device addresses of a, b, out.
    buffers: [u64; 3],
    n: usize,
    /// Bytes that a launch's parameters are off by.
    skew: u64,
}

/// Carries the script out, in the child. Does nothing in a process that was given none.
pub(crate) fn carry_out() {
    let (Ok(script), Ok(answers)) = (std::env::var(SCRIPT), std::env::var(ANSWERS)) else { return };
    let mut answers = fs::File::create(answers).expect("the parent's folder is there");
    // SAFETY: the fake driver has no code that runs when it is opened; a real one is made to be opened.
    let library = unsafe { Library::new(library()) }.expect("the fake driver opens");
    let mut client = Client { library, module: 0, function: 0, stream: 0, buffers: [0; 3], n: 0, skew: 0 };
    for command in script.split([';', '\n']).map(str::trim).filter(|command| !command.is_empty()) {
        let answer = client.carry_out(command);
        writeln!(answers, "{answer}").expect("the parent's folder has room");
    }
    // Unloading is not tested: nobody unloads a driver.
    std::mem::forget(client);
}

/// Calls a function by name. Every type is written at the call, as `cuda.h` has it.
macro_rules! call {
    ($client:expr, $name:ident($($argument:expr => $type:ty),*)) => {{
        let name = concat!(stringify!($name), "\0");
        // SAFETY: the types are those of cuda.h, and the arguments are this client's own.
        unsafe {
            let function = $client.library.get::<unsafe extern "C" fn($($type),*) -> c_uint>(name.as_bytes());
            function.expect("the symbol is exported")($($argument),*)
        }
    }};
}

impl Client {
    fn carry_out(&mut self, command: &str) -> String {
        let words: Vec<&str> = command.split_whitespace().collect();
        match words[..] {
            ["init"] => call!(self, cuInit(0 => c_uint)).to_string(),
            ["version"] => {
                let mut version = 0;
                let code = call!(self, cuDriverGetVersion(&raw mut version => *mut c_int));
                format!("{code} {version}")
            }
            ["devices"] => self.devices(),
            ["context"] => self.context(0),
            ["context", device] => self.context(device.parse().expect("an ordinal")),
            ["release"] => call!(self, cuDevicePrimaryCtxRelease_v2(0 => c_int)).to_string(),
            ["load", file] => self.load(Path::new(file), 4096),
            ["load", file, room] => self.load(Path::new(file), room.parse().expect("a size")),
            ["prefixes", file] => self.prefixes(Path::new(file)),
            ["unload"] => call!(self, cuModuleUnload(self.module as *mut c_void => *mut c_void)).to_string(),
            ["function", name] => {
                let name = CString::new(name).expect("a name has no zero");
                let (module, to) = (self.module as *mut c_void, &raw mut self.function);
                call!(self, cuModuleGetFunction(to => *mut usize, module => *mut c_void, name.as_ptr() => *const c_char))
                    .to_string()
            }
            ["attribute", attribute] => {
                let (mut value, attribute) = (0, attribute.parse().expect("a number"));
                let function = self.function as *mut c_void;
                let code = call!(self, cuFuncGetAttribute(
                    &raw mut value => *mut c_int, attribute => c_uint, function => *mut c_void));
                format!("{code} {value}")
            }
            ["allocate", bytes] => {
                let (mut at, bytes) = (0, bytes.parse().expect("a size"));
                call!(self, cuMemAlloc_v2(&raw mut at => *mut u64, bytes => usize)).to_string()
            }
            ["buffers", n] => self.make_buffers(n.parse().expect("a count")),
            ["poison"] => {
                let (out, n) = (self.buffers[2], self.n);
                call!(self, cuMemsetD32_v2(out => u64, 0x7FC0_0000 => c_uint, n => usize)).to_string()
            }
            ["skew", bytes] => {
                self.skew = bytes.parse().expect("a number");
                "skewed".into()
            }
            ["launch"] => self.launch(u32::try_from(self.n.div_ceil(256)).expect("a small count"), 256),
            ["launch", grid, block] => self.launch(grid.parse().expect("a count"), block.parse().expect("a count")),
            ["stream"] => call!(self, cuStreamCreate(&raw mut self.stream => *mut usize, 1 => c_uint)).to_string(),
            ["sync"] => call!(self, cuStreamSynchronize(self.stream as *mut c_void => *mut c_void)).to_string(),
            ["check"] => self.check(),
            ["hash"] => self.hash(),
            ["time"] => self.time(),
            ["elsewhere", ref rest @ ..] => {
                let command = rest.join(" ");
                std::thread::scope(|scope| scope.spawn(|| self.carry_out(&command)).join()).expect("no panic there")
            }
            _ => panic!("no such command: {command}"),
        }
    }

    fn devices(&self) -> String {
        let mut count = 0;
        let code = call!(self, cuDeviceGetCount(&raw mut count => *mut c_int));
        let mut text = format!("{code}");
        for device in 0..count {
            let mut name = [0_u8; 64];
            call!(self, cuDeviceGetName(name.as_mut_ptr().cast() => *mut c_char, 64 => c_int, device => c_int));
            let name = String::from_utf8_lossy(&name);
            let mut uuid = [0_u8; 16];
            call!(self, cuDeviceGetUuid_v2(uuid.as_mut_ptr() => *mut u8, device => c_int));
            let [cc_major, cc_minor, l2, clock, bus] = [75, 76, 38, 36, 37].map(|attribute| {
                let mut value = 0;
                call!(self, cuDeviceGetAttribute(&raw mut value => *mut c_int, attribute => c_uint, device => c_int));
                value
            });
            let uuid = uuid.map(|byte| format!("{byte:02x}")).concat();
            let name = name.trim_end_matches('\0');
            write!(text, " [{name} {cc_major}.{cc_minor} {l2} {clock} {bus} {uuid}]").expect("text takes text");
        }
        text
    }

    fn context(&self, device: c_int) -> String {
        let mut context = ptr::null_mut();
        let retained = call!(self, cuDevicePrimaryCtxRetain(&raw mut context => *mut *mut c_void, device => c_int));
        let current = call!(self, cuCtxSetCurrent(context => *mut c_void));
        format!("{retained} {current}")
    }

    /// The code, and the error log if there is one.
    fn load(&mut self, file: &Path, room: usize) -> String {
        let mut image = fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        image.push(0);
        let (code, log) = self.load_bytes(&image, room);
        format!("{code} {log}").trim().replace('\n', " | ")
    }

    fn load_bytes(&mut self, image: &[u8], room: usize) -> (c_uint, String) {
        let mut log = vec![0xFF_u8; room + 1];
        let mut options: [c_uint; 2] = [5, 6];
        let mut values: [*mut c_void; 2] = [log.as_mut_ptr().cast(), ptr::without_provenance_mut(room)];
        let code = call!(self, cuModuleLoadDataEx(
            &raw mut self.module => *mut usize,
            image.as_ptr().cast() => *const c_void,
            2 => c_uint,
            options.as_mut_ptr() => *mut c_uint,
            values.as_mut_ptr() => *mut *mut c_void));
        assert_eq!(log[room], 0xFF, "the log was written past its room");
        let length = values[1].addr();
        assert_eq!(log[length], 0, "the log ends in a zero behind as many bytes as its size says");
        (code, String::from_utf8_lossy(&log[..length]).into_owned())
    }

    /// How often each code comes back from the text cut off at every length.
    fn prefixes(&mut self, file: &Path) -> String {
        let text = fs::read(file).expect("the file is there");
        let mut taken = Vec::new();
        let mut codes = std::collections::BTreeMap::new();
        for length in 0..=text.len() {
            let mut image = text[..length].to_vec();
            image.push(0);
            let (code, _) = self.load_bytes(&image, 4096);
            *codes.entry(code).or_insert(0) += 1;
            if code == 0 {
                taken.push(text.len() - length);
            }
        }
        format!("{:?}, taken without the last {taken:?} bytes", codes.keys().collect::<Vec<_>>())
    }

    fn make_buffers(&mut self, n: usize) -> String {
        self.n = n;
        let mut codes = Vec::new();
        for place in 0..3 {
            let to = &raw mut self.buffers[place];
            codes.push(call!(self, cuMemAlloc_v2(to => *mut u64, n * 4 => usize)));
        }
        for place in 0..2 {
            let bytes: Vec<u8> = (0..n).flat_map(|i| input(2 * i + place).to_le_bytes()).collect();
            let (to, from) = (self.buffers[place], bytes.as_ptr().cast());
            codes.push(call!(self, cuMemcpyHtoD_v2(to => u64, from => *const c_void, bytes.len() => usize)));
        }
        format!("{codes:?}")
    }

    fn launch(&self, grid: c_uint, block: c_uint) -> String {
        let mut n = self.n as u64;
        let mut pointers = self.buffers.map(|address| address + self.skew);
        let mut parameters: Vec<*mut c_void> =
            pointers.iter_mut().map(|address| ptr::from_mut(address).cast()).collect();
        parameters.push((&raw mut n).cast());
        call!(self, cuLaunchKernel(
            self.function as *mut c_void => *mut c_void,
            grid => c_uint, 1 => c_uint, 1 => c_uint,
            block => c_uint, 1 => c_uint, 1 => c_uint,
            0 => c_uint,
            self.stream as *mut c_void => *mut c_void,
            parameters.as_mut_ptr() => *mut *mut c_void,
            ptr::null_mut() => *mut *mut c_void))
        .to_string()
    }

    fn output(&self) -> Result<Vec<u8>, c_uint> {
        let mut bytes = vec![0_u8; self.n * 4];
        let (to, from) = (bytes.as_mut_ptr().cast(), self.buffers[2]);
        match call!(self, cuMemcpyDtoH_v2(to => *mut c_void, from => u64, bytes.len() => usize)) {
            0 => Ok(bytes),
            code => Err(code),
        }
    }

    /// How many elements are wrong, and the first of them.
    fn check(&self) -> String {
        let output = match self.output() {
            Ok(output) => output,
            Err(code) => return code.to_string(),
        };
        let wrong = |(i, got): (usize, &[u8])| {
            let want = (input(2 * i) + input(2 * i + 1)).to_bits();
            let got = u32::from_le_bytes(got.try_into().expect("chunks of four"));
            (got != want).then(|| format!("at {i} {:08x}", got ^ want))
        };
        let wrong: Vec<String> = output.chunks_exact(4).enumerate().filter_map(wrong).collect();
        match wrong.first() {
            None => "right".into(),
            Some(first) => format!("{} wrong, {first}", wrong.len()),
        }
    }

    fn hash(&self) -> String {
        use sha2::Digest as _;
        let output = self.output().expect("the output can be read");
        sha2::Sha256::digest(output).iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat()
    }

    /// Whether events round a launch measure what a clock does, to within the calls' own time.
    fn time(&self) -> String {
        let mut events = [0_usize; 2];
        for event in &mut events {
            call!(self, cuEventCreate(&raw mut *event => *mut usize, 0 => c_uint));
        }
        let [start, end] = events.map(|event| event as *mut c_void);
        let stream = self.stream as *mut c_void;
        let clock = Instant::now();
        call!(self, cuEventRecord(start => *mut c_void, stream => *mut c_void));
        self.launch(4, 256);
        call!(self, cuEventRecord(end => *mut c_void, stream => *mut c_void));
        call!(self, cuEventSynchronize(end => *mut c_void));
        let whole = clock.elapsed().as_secs_f32() * 1e3;
        let mut ms = -1_f32;
        let code = call!(self, cuEventElapsedTime(&raw mut ms => *mut f32, start => *mut c_void, end => *mut c_void));
        format!("{code} {}", if 0.0 < ms && ms <= whole { "within the clock's" } else { "outside the clock's" })
    }
}

/// The input's value k, as the protocol has it: 1 and the 23 bits of a hash as the fraction.
fn input(k: usize) -> f32 {
    let k = u32::try_from(k & 0xFFFF_FFFF).expect("32 bits");
    let mut h = k.wrapping_mul(2_654_435_761);
    h ^= h >> 15;
    f32::from_bits((h & 0x7F_FFFF) | 0x3F80_0000)
}
