//! A module in a sandbox: its memory, the calls into it, and their limits. The module has no imports, so its output
//! depends only on its input, and is the same every time.

use wasmi::{
    Config, EnforcedLimits, Engine, Error, Instance, Linker, Memory, Module, Store, StoreLimits, StoreLimitsBuilder,
    TrapCode, TypedFunc, WasmParams, WasmResults,
};

/// The version of the interface between modules and this program.
const ABI: i32 = 1;

/// The most bytes of the arguments, with the zeros between them.
const ARGUMENTS_MAX: usize = 64 << 10;

/// The most bytes of a message that an error shows.
const MESSAGE_MAX: usize = 500;

/// The limits of a module.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Fuel of each call: about one unit for an instruction.
    pub(super) fuel: u64,
    /// Bytes of memory.
    pub(super) memory: usize,
}

pub(super) struct Sandbox {
    store: Store<StoreLimits>,
    instance: Instance,
    memory: Memory,
    limits: Limits,
}

impl Sandbox {
    pub(super) fn new(file: &[u8], limits: Limits) -> Result<Sandbox, String> {
        if !file.starts_with(b"\0asm") {
            return Err("is no WebAssembly module: it does not begin with the bytes 00 61 73 6d".into());
        }
        if has_code_of_no_functions(file) {
            return Err(
                "is no valid WebAssembly module: its code section has no functions, and bytes nevertheless".into()
            );
        }
        let mut config = Config::default();
        config.consume_fuel(true).wasm_multi_memory(false);
        config.ignore_custom_sections(true).enforced_limits(EnforcedLimits::strict());
        let engine = Engine::new(&config);
        let module = Module::new(&engine, file).map_err(|error| format!("is no valid WebAssembly module: {error}"))?;
        if let Some(import) = module.imports().next() {
            let (from, name) = (import.module(), import.name());
            return Err(format!("the module imports '{from}.{name}', and modules are given nothing"));
        }
        // Growing beyond the limit is an error here: few modules report a failed growth clearly.
        let within =
            StoreLimitsBuilder::new().memory_size(limits.memory).table_elements(1 << 16).trap_on_grow_failure(true);
        let mut store = Store::new(&engine, within.build());
        store.limiter(|limits| limits);
        store.set_fuel(limits.fuel).map_err(|error| error.to_string())?;
        let instance = Linker::new(&engine)
            .instantiate_and_start(&mut store, &module)
            .map_err(|error| format!("the module does not start: {}", reason(&error, limits, "in one call")))?;
        let memory = instance.get_memory(&store, "memory").ok_or("the module exports no memory of the name memory")?;
        let mut sandbox = Sandbox { store, instance, memory, limits };
        match sandbox.call(&sandbox.function::<(), i32>("millstream_abi")?, ())? {
            ABI => Ok(sandbox),
            other => {
                Err(format!("the module is made for version {other} of what modules export, and this is version {ABI}"))
            }
        }
    }

    /// Passes the arguments to the module.
    pub(super) fn start(&mut self, arguments: &[String]) -> Result<(), String> {
        if !self.exports("millstream_start") {
            return match arguments.first() {
                Some(word) => Err(format!("the module takes no arguments, so '{word}' means nothing here")),
                None => Ok(()),
            };
        }
        let start = self.function::<(i32, i32), i32>("millstream_start")?;
        if let Some(word) = arguments.iter().find(|word| word.contains('\0')) {
            return Err(format!("an argument has a zero byte in it: '{}'", word.escape_debug()));
        }
        let words: Vec<u8> = arguments.iter().flat_map(|word| [word.as_bytes(), b"\0"].concat()).collect();
        if words.len() > ARGUMENTS_MAX {
            return Err(format!("the arguments have more than {ARGUMENTS_MAX} bytes"));
        }
        let at = self.allocate(words.len())?;
        self.write(at, &words)?;
        match self.call(&start, (at.cast_signed(), words.len() as i32))? {
            0 => Ok(()),
            _ => Err(self.message().unwrap_or_else(|| "the module does not take these arguments".into())),
        }
    }

    pub(super) fn exports(&self, name: &str) -> bool {
        self.instance.get_func(&self.store, name).is_some()
    }

    /// A function that the module must export.
    pub(super) fn function<P: WasmParams, R: WasmResults>(&self, name: &str) -> Result<TypedFunc<P, R>, String> {
        match self.instance.get_func(&self.store, name) {
            None => Err(format!("the module exports no function {name}")),
            Some(function) => function
                .typed(&self.store)
                .map_err(|_| format!("the function {name} of the module has another type than it should have")),
        }
    }

    /// Calls a function, which may use all of the fuel.
    pub(super) fn call<P: WasmParams, R: WasmResults>(
        &mut self,
        function: &TypedFunc<P, R>,
        parameters: P,
    ) -> Result<R, String> {
        self.call_with(function, parameters, self.limits.fuel, "in one call")
    }

    /// The same with `fuel`; if that is not enough, the error says `when` it was used up.
    pub(super) fn call_with<P: WasmParams, R: WasmResults>(
        &mut self,
        function: &TypedFunc<P, R>,
        parameters: P,
        fuel: u64,
        when: &str,
    ) -> Result<R, String> {
        self.store.set_fuel(fuel).map_err(|error| error.to_string())?;
        function.call(&mut self.store, parameters).map_err(|error| {
            let reason = reason(&error, self.limits, when);
            // A panic of a language leaves a message behind. It takes some fuel to call the function that returns its
            // address.
            let is_panic = error.as_trap_code() == Some(TrapCode::UnreachableCodeReached);
            let said = if is_panic { self.message() } else { None };
            match said {
                Some(said) => format!("{reason}: {said}"),
                None => reason,
            }
        })
    }

    /// Fuel that the last call has left.
    pub(super) fn fuel_left(&self) -> u64 {
        self.store.get_fuel().unwrap_or(0)
    }

    pub(super) fn limits(&self) -> Limits {
        self.limits
    }

    /// Allocates bytes of the module's memory that the module does not use itself.
    pub(super) fn allocate(&mut self, bytes: usize) -> Result<u32, String> {
        let allocate = self.function::<i32, i32>("millstream_allocate")?;
        let at = self.call(&allocate, bytes as i32)?.cast_unsigned();
        let size = self.memory.data(&self.store).len();
        if at == 0 || at as usize + bytes > size {
            return Err(format!(
                "the module gives {bytes} bytes at address {at}, which are not in its memory of {size} bytes"
            ));
        }
        Ok(at)
    }

    pub(super) fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), String> {
        self.memory.write(&mut self.store, at as usize, bytes).map_err(|error| error.to_string())
    }

    pub(super) fn read(&self, at: u32, bytes: &mut [u8]) -> Result<(), String> {
        self.memory.read(&self.store, at as usize, bytes).map_err(|error| error.to_string())
    }

    /// The module's message about its last failure, on one line.
    pub(super) fn message(&mut self) -> Option<String> {
        let message = self.function::<(), i32>("millstream_message").ok()?;
        self.store.set_fuel(self.limits.fuel).ok()?;
        let at = message.call(&mut self.store, ()).ok()?.cast_unsigned();
        let text = self.memory.data(&self.store).get(at as usize..)?;
        let text = &text[..text.len().min(MESSAGE_MAX)];
        let text = String::from_utf8_lossy(text.split(|&byte| byte == 0).next()?);
        let text: String = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
        (at != 0 && !text.trim().is_empty()).then(|| text.trim().into())
    }
}

/// The error of a call that might run for ever.
pub(super) fn out_of_fuel(limits: Limits, when: &str) -> String {
    format!("the module used all of its fuel, {}, {when}: it may run for ever; fuel=N allows more", limits.fuel)
}

fn reason(error: &Error, limits: Limits, when: &str) -> String {
    match error.as_trap_code() {
        Some(TrapCode::OutOfFuel) => out_of_fuel(limits, when),
        Some(TrapCode::GrowthOperationLimited) => {
            format!("the module wants more memory than {} bytes; memory=SIZE allows more", limits.memory)
        }
        Some(trap) => format!("the module was stopped: {trap}"),
        None => error.to_string(),
    }
}

/// Whether the module has bytes of code for no function: wasmi 2.0 divides the one by the other.
fn has_code_of_no_functions(file: &[u8]) -> bool {
    const HEADER: usize = 8;
    const CODE: u8 = 10;
    /// Bytes of the longest number (`u32`, WebAssembly core specification, 5.2.2).
    const LONGEST_NUMBER: usize = 5;
    let mut rest = file.get(HEADER..).unwrap_or_default();
    while let Some((&id, after)) = rest.split_first() {
        let Some((size, after)) = number(after) else { return false };
        let Some((section, next)) = after.split_at_checked(size) else { return false };
        if id == CODE && size > LONGEST_NUMBER && number(section).is_some_and(|(functions, _)| functions == 0) {
            return true;
        }
        rest = next;
    }
    false
}

/// The number at the beginning, in LEB128, and the bytes behind it.
fn number(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let len = bytes.iter().take(5).position(|byte| byte & 0x80 == 0)? + 1;
    let value = bytes[..len].iter().rev().fold(0_u64, |value, byte| value << 7 | u64::from(byte & 0x7F));
    Some((usize::try_from(value).ok()?, &bytes[len..]))
}
