//! Random numbers for keys, nonces and salts.

use millstream_net::TransformError;
use zeroize::Zeroizing;

/// Random bytes of the system.
pub(super) fn random<const N: usize>() -> Result<Zeroizing<[u8; N]>, TransformError> {
    let mut bytes = Zeroizing::new([0; N]);
    match getrandom::fill(&mut *bytes) {
        Ok(()) => Ok(bytes),
        Err(error) => Err(TransformError::new(format!("the system gives no random numbers: {error}"))),
    }
}
