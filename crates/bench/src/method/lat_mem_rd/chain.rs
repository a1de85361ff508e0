//! The chain: in which order it visits its places, how it is put into memory, and the walk.

use millstream_sys::pages::Link;

use crate::random::Random;

/// A line: each load of a random walk is one of its own.
pub const LINE: usize = 64;

/// A cycle through places `0..len`.
pub(super) enum Order {
    /// 0, 1, 2 and back to 0 from the last of so many.
    Ascending(usize),
    /// The place after each.
    Shuffled(Vec<u32>),
}

impl Order {
    pub(super) fn ascending(len: usize) -> Order {
        Order::Ascending(len)
    }

    /// One cycle, drawn from all of them alike (Sattolo, An algorithm to generate a random cyclic permutation,
    /// Information Processing Letters 22, 1986): a shuffle in which no item may stay where it is.
    pub(super) fn shuffled(len: usize, seed: u64) -> Order {
        let mut random = Random(seed);
        let mut next: Vec<u32> = (0..u32::try_from(len).unwrap_or(u32::MAX)).collect();
        for last in (1..next.len()).rev() {
            next.swap(last, random.below(last));
        }
        Order::Shuffled(next)
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Order::Ascending(len) => *len,
            Order::Shuffled(next) => next.len(),
        }
    }

    /// Of memory that it takes itself.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Order::Ascending(_) => 0,
            Order::Shuffled(next) => size_of_val(next.as_slice()),
        }
    }

    fn next(&self, place: usize) -> usize {
        match self {
            Order::Ascending(len) => (place + 1) % len,
            Order::Shuffled(next) => next[place] as usize,
        }
    }

    /// Where `steps` steps lead from place 0.
    pub(super) fn after(&self, steps: usize) -> usize {
        (0..steps % self.len()).fold(0, |place, _| self.next(place))
    }

    /// Each place has one that follows it, so a walk that comes back to 0 for the first time after as many steps as
    /// there are places has visited each exactly once.
    fn check(&self) -> Result<(), String> {
        let (mut place, mut steps) = (self.next(0), 1);
        while place != 0 && steps <= self.len() {
            (place, steps) = (self.next(place), steps + 1);
        }
        match steps {
            steps if steps == self.len() => Ok(()),
            steps => Err(format!("the chain is a cycle of {steps} places where there are {}", self.len())),
        }
    }
}

/// Where the places are in memory: a link every `stride` bytes.
#[derive(Clone, Copy)]
pub(super) struct Slots<'a> {
    pub(super) links: &'a [Link<'a>],
    pub(super) stride: usize,
    /// Whether each begins a line later than the one before, round a small page: links at the same place in each page
    /// would all compete for one set of the cache.
    pub(super) skews: bool,
}

impl<'a> Slots<'a> {
    pub(super) fn get(&self, place: usize) -> &'a Link<'a> {
        let skew = if self.skews { place % (4096 / LINE) * LINE } else { 0 };
        &self.links[(place * self.stride + skew) / size_of::<Link<'_>>()]
    }

    /// Puts `order` into memory.
    pub(super) fn link(&self, order: &Order) {
        for place in 0..order.len() {
            self.get(place).set(self.get(order.next(place)));
        }
    }

    /// Whether what is in memory is `order`, and visits every place exactly once.
    pub(super) fn check(&self, order: &Order) -> Result<(), String> {
        for place in 0..order.len() {
            let wanted = self.get(order.next(place));
            if !self.get(place).next().is_some_and(|next| std::ptr::eq(next, wanted)) {
                return Err(format!("place {place} of the chain leads elsewhere than it should"));
            }
        }
        order.check()
    }
}

/// Follows the chain for `loads` loads; `None` if it ends before. Not to be taken apart by the compiler: a loop of one
/// load that waits for the last one, a test that the processor guesses, and a count.
#[inline(never)]
pub(super) fn walk<'a>(from: &'a Link<'a>, loads: usize) -> Option<&'a Link<'a>> {
    let mut at = from;
    for _ in 0..loads {
        at = at.next()?;
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_sys::pages::Pages;

    #[test]
    fn shuffled_is_one_cycle_and_another_with_another_seed() {
        for len in [2, 3, 64, 1000] {
            Order::shuffled(len, 7).check().unwrap();
        }
        let path = |seed| (0..100).map(|step| Order::shuffled(100, seed).after(step)).collect::<Vec<_>>();
        assert_eq!(path(1), path(1));
        assert_ne!(path(1), path(2));
    }

    /// Over the whole size, not only near by: the mean distance of two random places is a third of all.
    #[test]
    fn shuffled_jumps_far() {
        let order = Order::shuffled(10_000, 1);
        let mean = (0..10_000).map(|place| order.next(place).abs_diff(place)).sum::<usize>() / 10_000;
        assert!((3000..3700).contains(&mean), "{mean}");
    }

    #[test]
    fn a_chain_that_leaves_places_out_is_found() {
        let two_cycles = Order::Shuffled(vec![1, 0, 3, 2]);
        assert_eq!(two_cycles.check().unwrap_err(), "the chain is a cycle of 2 places where there are 4");
        let never_back = Order::Shuffled(vec![1, 2, 1, 0]);
        assert!(never_back.check().is_err());
    }

    #[test]
    fn a_link_that_leads_elsewhere_is_found() {
        let mut pages = Pages::reserve(4096).unwrap();
        let slots = Slots { links: pages.links(), stride: 64, skews: false };
        let order = Order::shuffled(64, 1);
        slots.link(&order);
        slots.check(&order).unwrap();
        slots.get(9).set(slots.get(9));
        assert_eq!(slots.check(&order).unwrap_err(), "place 9 of the chain leads elsewhere than it should");
    }

    #[test]
    fn a_walk_ends_where_the_order_says() {
        let mut pages = Pages::reserve(1 << 20).unwrap();
        let slots = Slots { links: pages.links(), stride: 4096, skews: true };
        for order in [Order::ascending(256), Order::shuffled(256, 3)] {
            slots.link(&order);
            slots.check(&order).unwrap();
            for steps in [0, 1, 255, 256, 1000] {
                let end = walk(slots.get(0), steps).unwrap();
                assert!(std::ptr::eq(end, slots.get(order.after(steps))), "{steps}");
            }
        }
    }

    #[test]
    fn a_walk_off_the_end_is_noticed() {
        let mut pages = Pages::reserve(4096).unwrap();
        let links = pages.links();
        links[0].set(&links[1]);
        assert!(walk(&links[0], 1).is_some() && walk(&links[0], 2).is_none());
    }
}
