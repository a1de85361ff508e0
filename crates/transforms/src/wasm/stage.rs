//! Modules as stages. Both kinds of modules get their bytes copied into their memory and out of it. So both are
//! rewriting stages of the network, and can have a thread of their own.

use millstream_net::{Next, Rewrite, Step, TransformError};
use wasmi::TypedFunc;

use super::sandbox::{Sandbox, out_of_fuel};

/// The most bytes that a module gets at a time, and the room for its output.
const PIECE: usize = 128 << 10;

/// A module that changes bytes where they lie.
pub(super) struct InPlaceModule {
    sandbox: Sandbox,
    apply: TypedFunc<(i64, i32, i32), i32>,
    /// Not every module exports it.
    finish: Option<TypedFunc<(), i32>>,
    bytes_at: u32,
    offset: u64,
}

impl InPlaceModule {
    pub(super) fn new(mut sandbox: Sandbox) -> Result<InPlaceModule, String> {
        let apply = sandbox.function("millstream_apply")?;
        let finish = sandbox.exports("millstream_finish").then(|| sandbox.function("millstream_finish")).transpose()?;
        let bytes_at = sandbox.allocate(PIECE)?;
        Ok(InPlaceModule { sandbox, apply, finish, bytes_at, offset: 0 })
    }

    fn apply(&mut self, from: &[u8], to: &mut [u8]) -> Result<(), TransformError> {
        self.sandbox.write(self.bytes_at, from).map_err(TransformError::new)?;
        // At most `PIECE` bytes; the position wraps as in a C program.
        let parameters = (self.offset.cast_signed(), self.bytes_at.cast_signed(), from.len() as i32);
        let done = self.sandbox.call(&self.apply, parameters).map_err(TransformError::new)?.cast_unsigned() as usize;
        if done > from.len() {
            return Err(TransformError::new(format!(
                "the module says that it worked on {done} bytes, and was given {}",
                from.len()
            )));
        }
        if done < from.len() {
            let said = self.sandbox.message().unwrap_or_else(|| "the module does not take this byte".into());
            return Err(TransformError::new(said).after(done));
        }
        self.sandbox.read(self.bytes_at, to).map_err(TransformError::new)?;
        self.offset += from.len() as u64;
        Ok(())
    }

    fn finish(&mut self) -> Result<(), TransformError> {
        let Some(finish) = &self.finish else { return Ok(()) };
        match self.sandbox.call(finish, ()).map_err(TransformError::new)? {
            0 => Ok(()),
            _ => Err(TransformError::new(
                self.sandbox.message().unwrap_or_else(|| "the module does not take this end".into()),
            )),
        }
    }
}

impl Rewrite for InPlaceModule {
    fn step(&mut self, input: &[u8], output: &mut [u8], ends: bool) -> Result<Step, TransformError> {
        let count = input.len().min(output.len()).min(PIECE);
        if count > 0 {
            self.apply(&input[..count], &mut output[..count])?;
        }
        let is_all = ends && count == input.len();
        if is_all {
            self.finish()?;
        }
        Ok(Step { consumed: count, produced: count, next: if is_all { Next::Done } else { Next::More } })
    }

    fn copied(&self, step: &Step) -> usize {
        step.consumed + step.produced
    }
}

/// A module that writes other bytes than it reads.
pub(super) struct RewritingModule {
    sandbox: Sandbox,
    step: TypedFunc<i32, i32>,
    step_at: u32,
    input_at: u32,
    output_at: u32,
    /// Fuel for calls that consume no input. Output without input costs fuel too, or a module could write for ever.
    tank: u64,
}

/// The time at which `tank` was used up, for the error.
const WITHOUT_READING: &str = "in calls that read nothing";

/// `struct millstream_step`: seven numbers of four bytes, the lowest first.
const STEP_BYTES: usize = 28;

impl RewritingModule {
    pub(super) fn new(mut sandbox: Sandbox) -> Result<RewritingModule, String> {
        let step = sandbox.function("millstream_step")?;
        let (step_at, input_at, output_at) =
            (sandbox.allocate(STEP_BYTES)?, sandbox.allocate(PIECE)?, sandbox.allocate(PIECE)?);
        let tank = sandbox.limits().fuel;
        Ok(RewritingModule { sandbox, step, step_at, input_at, output_at, tank })
    }

    /// Calls the module; returns its answer, the bytes that it consumed, and those that it produced.
    fn call(&mut self, input: &[u8], room: usize, ends: bool) -> Result<(i32, usize, usize), String> {
        // At most PIECE bytes each.
        let numbers = [self.input_at, input.len() as u32, self.output_at, room as u32, u32::from(ends), 0, 0];
        let mut step = [0; STEP_BYTES];
        step.chunks_exact_mut(4).zip(numbers).for_each(|(bytes, number)| bytes.copy_from_slice(&number.to_le_bytes()));
        self.sandbox.write(self.input_at, input)?;
        self.sandbox.write(self.step_at, &step)?;
        let fuel = self.sandbox.limits().fuel;
        let when = if self.tank < fuel { WITHOUT_READING } else { "in one call" };
        let answer = self.sandbox.call_with(&self.step, self.step_at.cast_signed(), self.tank, when)?;
        let left = self.sandbox.fuel_left();
        self.sandbox.read(self.step_at, &mut step)?;
        let number = |place: usize| {
            u32::from_le_bytes([step[place], step[place + 1], step[place + 2], step[place + 3]]) as usize
        };
        let (consumed, produced) = (number(20), number(24));
        if consumed > input.len() {
            return Err(format!("the module says that it consumed {consumed} bytes, and was given {}", input.len()));
        }
        if produced > room {
            return Err(format!("the module says that it produced {produced} bytes, and had room for {room}"));
        }
        self.tank = if consumed > 0 { fuel } else { left.saturating_sub(produced as u64) };
        if self.tank == 0 && answer == 0 {
            return Err(out_of_fuel(self.sandbox.limits(), WITHOUT_READING));
        }
        Ok((answer, consumed, produced))
    }
}

impl Rewrite for RewritingModule {
    fn step(&mut self, input: &[u8], output: &mut [u8], ends: bool) -> Result<Step, TransformError> {
        let given = &input[..input.len().min(PIECE)];
        let room = output.len().min(PIECE);
        let ends = ends && given.len() == input.len();
        let (answer, consumed, produced) = self.call(given, room, ends).map_err(TransformError::new)?;
        let next = match answer {
            0 => Next::More,
            1 => Next::Done,
            2 => {
                let said = self.sandbox.message().unwrap_or_else(|| "the module does not take this byte".into());
                return Err(TransformError::new(said).after(consumed));
            }
            other => {
                return Err(TransformError::new(format!(
                    "the module answered {other}, and there are only the answers 0, 1 and 2"
                )));
            }
        };
        self.sandbox.read(self.output_at, &mut output[..produced]).map_err(TransformError::new)?;
        Ok(Step { consumed, produced, next })
    }

    /// Each byte is copied into the module, within it, and out of it.
    fn copied(&self, step: &Step) -> usize {
        step.consumed + 2 * step.produced
    }
}
