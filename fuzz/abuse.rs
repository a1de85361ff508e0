//! What is done to a ring whose header is made of arbitrary bytes: everything, in an order that the bytes decide.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use millstream_ring::{
    Bytes, Geometry, Header, LARGEST_OFFER, Parked, Parking, Ring, RingError, Route, Shadow, Standing, Terms, Whose,
};

/// Nobody else is there: a lock that is not free will not become so.
struct Alone;

impl Parking for Alone {
    type Announced = ();
    fn owner(&self) -> u32 {
        7
    }
    fn announce(&self, _: &AtomicU32) {}
    fn restore(&self, _: &AtomicU32, (): ()) {}
    fn park(&self, _: &AtomicU32, expected: u32, _: u32) -> Parked {
        // Sometimes the owner is dead.
        if expected & 1 == 0 { Parked::OwnerIsGone } else { Parked::GiveUp }
    }
    fn unpark_one(&self, _: &AtomicU32) {}
    fn can_be_fenced(&self) -> bool {
        true
    }
    fn prepare_to_own(&self) {}
    fn wants_for_itself(&self) -> bool {
        true
    }
    fn fence_everywhere(&self) {}
}

/// A kernel pipe that agrees to anything.
struct Agreeable;

impl Shadow for Agreeable {
    fn narrow(&self) {}
    fn put(&self, bytes: u32) -> u32 {
        bytes.min(4096)
    }
    fn take(&self, bytes: u32) -> u32 {
        // Runs empty now and then, as a real one does.
        if bytes > 4096 { 0 } else { bytes }
    }
    fn bytes(&self) -> u32 {
        5000
    }
    fn now(&self) -> u64 {
        7
    }
}

const BANK: usize = 8192;
/// Around the banks, to see what is written beside them.
const FENCE: usize = 64;

/// Bytes of the data that say what to do.
const CALLS: usize = 128;

/// Makes a good ring, changes every bit of its header that `data` says after the first [`CALLS`] bytes, and does what
/// those say. Returns how many calls were answered, and how many refused.
pub(crate) fn abuse(data: &[u8]) -> (usize, usize) {
    let header = Box::new(Header::new());
    let (calls, changes) = data.split_at(data.len().min(CALLS));
    let mut memory = vec![0xA5_u8; 2 * BANK + 2 * FENCE];
    // SAFETY: the banks lie in `memory`, which outlives them and is not looked at meanwhile.
    let bytes = unsafe { Bytes::new(NonNull::from(&mut memory[FENCE..]).cast(), 2 * BANK) };
    let ring = Ring::new(&header, bytes);
    ring.found(whose(1), Geometry::of(4096).expect("a page is a ring"));
    let start = NonNull::from(&*header).cast::<u32>();
    for (index, change) in changes.chunks_exact(4).take(size_of::<Header>() / 4).enumerate() {
        // SAFETY: within the header, which is made of atomic integers, for which every value is valid. The gaps between
        // them are nobody's.
        let word = unsafe { AtomicU32::from_ptr(start.add(index).as_ptr()) };
        word.fetch_xor(u32::from_le_bytes([change[0], change[1], change[2], change[3]]), Relaxed);
    }
    let (mut answered, mut refused) = (0, 0);
    let mut count = |is_good: bool| if is_good { answered += 1 } else { refused += 1 };
    for step in calls.chunks(2) {
        let (what, len) = (step[0], usize::from(step.get(1).copied().unwrap_or(1)) * 77);
        count(one_call(ring, what, len).is_ok());
    }
    let beside = memory[..FENCE].iter().chain(&memory[FENCE + 2 * BANK..]);
    assert!(beside.copied().all(|byte| byte == 0xA5), "bytes beside the banks were changed");
    (answered, refused)
}

fn whose(number: usize) -> Whose {
    Whose { device: number as u64, inode: 1, pid_namespace: 2 }
}

fn one_call(ring: Ring<'_>, what: u8, len: usize) -> Result<(), RingError> {
    let (mut buffer, parking, shadow) = (vec![7; len + 1], Alone, Agreeable);
    match what % 20 {
        0 => ring.check(whose(len)).map_err(|_| RingError),
        1 => ring.readable().map(|bytes| assert!(bytes <= BANK)),
        2 => ring.level().map(drop),
        3 => ring.capacity().map(|bytes| assert!(bytes <= BANK)),
        4 | 5 => {
            let side = ring.lock_writers(&parking)?;
            let room = side.room(len)?;
            assert!(room.len() <= BANK && room.touches(len.min(room.len())).len <= BANK);
            let written = side.write(room, [&buffer[..len / 3], &buffer[len / 3..]].into_iter(), 3);
            assert!(written <= room.len());
            Ok(())
        }
        6 | 7 => {
            let side = ring.lock_readers(&parking)?;
            let waiting = side.waiting(len)?;
            assert!(waiting.len() <= BANK && waiting.touches(len.min(waiting.len())).len <= BANK);
            let (head, tail) = buffer.split_at_mut(len / 3);
            let read = side.read(waiting, [head, tail].into_iter(), 3);
            assert!(read <= waiting.len());
            Ok(())
        }
        8 => {
            let side = ring.lock_readers(&parking)?;
            let waiting = side.waiting(usize::MAX)?;
            assert!(side.peek(waiting, len, &mut buffer) <= waiting.len());
            if len.is_multiple_of(2) {
                side.discard(waiting);
            }
            Ok(())
        }
        9 => {
            let (writers, readers) = (ring.lock_writers(&parking)?, ring.lock_readers(&parking)?);
            writers.set_route(&readers, [Route::Ring, Route::Shadow, Route::Moving][len % 3]);
            writers.resize(&readers, 4096 << (len % 4)).map_err(|_| RingError)
        }
        10 => ring.bell().raise(&parking, &shadow).map(drop),
        11 => ring.bell().lower(&parking, &shadow).map(drop),
        12 => {
            ring.bell().watch_for_bytes(&parking);
            ring.bell().watch_for_room(&parking);
            ring.bell().expel(&parking, &shadow)?;
            ring.bell().silence(&parking, &shadow, Route::Moving)
        }
        13 => {
            let _ = (ring.route(), ring.closes(), ring.writers_cpu(), ring.readers_cpu());
            let _ = (ring.readers_wait(), ring.writers_wait());
            ring.note_close();
            Ok(())
        }
        14 => {
            let outcome = ring.bell().reader_will_sleep(&parking, &shadow);
            ring.bell().reader_woke();
            outcome
        }
        15 => match ring.try_lock_both(&parking) {
            Some((writers, readers)) => writers.disown_pages(&readers).map(drop),
            None => Err(RingError),
        },
        16 => {
            let offered = ring.next_offer()?;
            let (Some(offer), count) = (offered, len % 5000) else { return ring.withdraw(len as u32, len).map(drop) };
            assert!((1..=LARGEST_OFFER).contains(&offer.rest()));
            let is_possible = count > 0 && count <= offer.rest();
            assert!(ring.take(&offer, count) == is_possible, "nobody else is there");
            let _ = ring.offer()?.map(|offer| (ring.return_offer(&offer), ring.drop_offer(&offer)));
            Ok(())
        }
        17 => {
            let (writers, readers) = (ring.lock_writers(&parking)?, ring.lock_readers(&parking)?);
            let Some(serial) = writers.next_serial() else { return writers.return_offers(&readers).map(drop) };
            let terms = Terms { process: 1, start: 2, voucher: 3, address: 4, len: len.clamp(1, LARGEST_OFFER) as u32 };
            assert!(writers.offer(serial, terms) && writers.next_serial().is_none());
            assert_eq!(ring.standing(serial), Standing::Open(0));
            assert_eq!(writers.room(1)?.len(), 0, "nothing is written behind an offer");
            if len.is_multiple_of(2) { ring.withdraw(serial, len).map(|taken| assert_eq!(taken, 0)) } else { Ok(()) }
        }
        18 => {
            let side = ring.lock_writers(&parking)?;
            let claim = side.claim(side.room(len)?, len, what.into());
            assert!(claim.places(&ring).iter().all(|place| place.start <= place.end && place.end <= 2 * BANK));
            let claims = ring.claims_of_writers();
            // One that memory has, and so of any process and number.
            let stands = claims.standing();
            let _ = side.is_claimed();
            if len.is_multiple_of(2) {
                claims.end(&claim, len / 2, 3, &parking);
            } else {
                let _ = (stands.map(|id| side.end_claim_of_dead(id)), side.end_claim_of_dead(claim.id()));
            }
            Ok(())
        }
        19 => {
            let side = ring.lock_readers(&parking)?;
            let claim = side.claim(side.waiting(len)?, len, what.into());
            assert!(claim.places(&ring).iter().all(|place| place.start <= place.end && place.end <= 2 * BANK));
            let claims = ring.claims_of_readers();
            let _ = side.will_wait();
            claims.end(&claim, len, 3, &parking);
            Ok(())
        }
        _ => {
            ring.found(whose(1), Geometry::of(4096).expect("a page is a ring"));
            Ok(())
        }
    }
}
