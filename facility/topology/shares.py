"""Weights: what each watt of each load puts on each element in each case.

A *check* is an element, or one phase of an element with a three-phase amp rating. A *cell* is a
check in a case in which its element is alive and carries some load otherwise than in the normal
case, whatever the split; the normal cell of every check that is alive stands too. Every other cell
equals its normal one.

The structure depends on the topology alone; a changed split only multiplies.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

import numpy as np

from facility.points import FloatArray, IntArray
from facility.topology.graph import BoolArray, Compiled
from facility.topology.plant import Topology

#: Worst split of a dual supply that is not measured.
UNMEASURED_SHARE = 0.65


@dataclass(frozen=True)
class Structure:
    """Where the weights stand; depends on the topology and on whether phases are checked.

    Attributes:
        check_element: int[C]; check_phase: int[C], -1 for the whole element.
        limit_w: float64[C], W; inf when unrated.
        cell_check, cell_case: int[M], sorted by check, then case; the first cell of each check is
            its normal one.
        first_cell: int[C']; where each check that is alive begins; checks: int[C'], which.
        base_check, base_load: int[B]; entries of the normal case.
        group_cell, group_load, group_base: int[G]; changed entries, sorted by cell; `group_base`
            is the entry of the normal case that they replace, -1 for none.
    """

    check_element: IntArray
    check_phase: IntArray
    limit_w: FloatArray
    cell_check: IntArray
    cell_case: IntArray
    first_cell: IntArray
    checks: IntArray
    base_check: IntArray
    base_load: IntArray
    group_cell: IntArray
    group_load: IntArray
    group_base: IntArray
    _entry_feed: IntArray = field(repr=False)
    _entry_weight: FloatArray = field(repr=False)
    _entry_phase: IntArray = field(repr=False)
    _starts: IntArray = field(repr=False)
    _start_pair: IntArray = field(repr=False)
    _base_of: IntArray = field(repr=False)
    _group_of: IntArray = field(repr=False)

    @cached_property
    def base_terms(self) -> tuple[Terms, ...]:
        """What adds up to the weights of the normal case."""
        return _terms(self, self._base_of)

    @cached_property
    def group_terms(self) -> tuple[Terms, ...]:
        """What adds up to the changed weights."""
        return _terms(self, self._group_of)

    @cached_property
    def groups_by_load(self) -> tuple[IntArray, IntArray, IntArray]:
        """Changed entries sorted by load, where each load's begin, and which loads those are."""
        order = np.argsort(self.group_load, kind="stable")
        first = np.flatnonzero(np.diff(self.group_load[order], prepend=-1))
        return order, first, self.group_load[order][first]

    @cached_property
    def changed(self) -> BoolArray:
        """bool[M, L]: the cells in which a load weighs something else than in the normal one."""
        loads = max(self.base_load.max(initial=-1), self.group_load.max(initial=-1)) + 1
        out = np.zeros((len(self.cell_check), int(loads)), dtype=np.bool_)
        out[self.group_cell, self.group_load] = True
        return out

    @cached_property
    def base_pair(self) -> IntArray:
        """int64: the pair of each weight of the normal case."""
        return self._start_pair[self._base_of]

    @cached_property
    def group_pair(self) -> IntArray:
        """int64: the pair of each changed weight."""
        return self._start_pair[self._group_of]

    @cached_property
    def _most(self) -> FloatArray:
        """float64: the greatest weight of each entry's feeds, phases not regarded."""
        return np.maximum.reduceat(self._entry_weight, self._starts)


@dataclass(frozen=True)
class Terms:
    """Products that add up to weights: at most one for each; zero weights are left out.

    Attributes:
        at: int64, which weights get one.
        feed, phase: int64, pair feed and phase (-1: none) of each; weight: float64.
    """

    at: IntArray
    feed: IntArray
    phase: IntArray
    weight: FloatArray


def _terms(s: Structure, which: IntArray) -> tuple[Terms, ...]:
    """The products of some entries, in the order in which they are added up."""
    ends = np.append(s._starts[1:], len(s._entry_feed))
    lengths = ends[which] - s._starts[which]
    of = np.repeat(np.arange(len(which)), lengths)
    first = np.cumsum(lengths) - lengths
    entry = np.repeat(s._starts[which], lengths) + np.arange(len(of)) - np.repeat(first, lengths)
    flows = s._entry_weight[entry] != 0.0
    of, entry = of[flows], entry[flows]
    begins = np.flatnonzero(np.diff(of, prepend=-1))
    turn = np.arange(len(of)) - np.repeat(begins, np.diff(np.append(begins, len(of))))
    return tuple(
        Terms(
            of[mine],
            s._entry_feed[entry[mine]],
            s._entry_phase[entry[mine]],
            s._entry_weight[entry[mine]],
        )
        for mine in (np.flatnonzero(turn == n) for n in range(int(turn.max(initial=-1)) + 1))
    )


@lru_cache(maxsize=32)
def _structure(key: _Identity, phased: bool) -> Structure:
    topology = key.topology
    c = topology.compiled
    elements, cases = len(topology.elements), len(topology.case_names)
    check_element = np.arange(elements)
    check_phase = np.full(elements, -1, dtype=np.int64)
    limit = topology.limit_w
    feed, element, weight = c.entry_feed, c.entry_element, c.entry_weight
    check, phase = element, np.full(len(element), -1, dtype=np.int64)
    rated = np.flatnonzero(np.isfinite(topology.phase_limit_w))
    if phased and len(rated):
        check_element = np.concatenate([check_element, np.repeat(rated, 3)])
        check_phase = np.concatenate([check_phase, np.tile(np.arange(3), len(rated))])
        limit = np.concatenate([limit, np.repeat(topology.phase_limit_w[rated], 3)])
        place = np.full(elements, -1, dtype=np.int64)
        place[rated] = elements + 3 * np.arange(len(rated))
        on = np.flatnonzero(place[element] >= 0)
        check = np.concatenate([check, *(place[element[on]] + p for p in range(3))])
        phase = np.concatenate([phase, np.repeat(np.arange(3), len(on))])
        feed = np.concatenate([feed, np.tile(feed[on], 3)])
        weight = np.concatenate([weight, np.tile(weight[on], 3)])
    checks_n = len(check_element)
    pair = c.feed_pair[feed]
    order = np.lexsort((check, pair))
    feed, check, phase, pair = (a[order] for a in (feed, check, phase, pair))
    weight = weight[order]
    key_of = pair * checks_n + check
    starts = np.flatnonzero(np.diff(key_of, prepend=-1))
    g_pair, g_check = pair[starts], check[starts]
    g_case, g_load = c.pair_case[g_pair], c.pair_load[g_pair]
    alive = ~c.dead[g_case, check_element[g_check]]
    base_of = np.flatnonzero(g_case == 0)
    base_key = g_load[base_of] * checks_n + g_check[base_of]
    base_order = np.argsort(base_key, kind="stable")
    base_of, base_key = base_of[base_order], base_key[base_order]
    group_of = np.flatnonzero((g_case > 0) & alive)
    wanted = g_load[group_of] * checks_n + g_check[group_of]
    at = np.minimum(np.searchsorted(base_key, wanted), max(len(base_key) - 1, 0))
    hit = base_key[at] == wanted if len(base_key) else np.zeros(len(wanted), dtype=np.bool_)
    group_base = np.where(hit, at, -1)
    entries = _Entries(np.append(starts, len(feed)), c.feed_column[feed], weight)
    kept = ~(_same_feeds(c, g_pair[group_of]) & entries.alike(group_of, base_of, group_base))
    group_of, group_base = group_of[kept], group_base[kept]
    cell_key = g_check[group_of] * cases + g_case[group_of]
    normal = np.flatnonzero(~c.dead[0, check_element]) * cases
    cells = np.unique(np.concatenate([cell_key, normal]))
    group_order = np.argsort(cell_key, kind="stable")
    group_of, cell_key = group_of[group_order], cell_key[group_order]
    first = np.flatnonzero(np.diff(cells // cases, prepend=-1))
    return Structure(
        check_element=check_element,
        check_phase=check_phase,
        limit_w=limit,
        cell_check=cells // cases,
        cell_case=cells % cases,
        first_cell=first,
        checks=cells[first] // cases,
        base_check=g_check[base_of],
        base_load=g_load[base_of],
        group_cell=np.searchsorted(cells, cell_key),
        group_load=g_load[group_of],
        group_base=group_base[group_order],
        _entry_feed=feed,
        _entry_weight=weight,
        _entry_phase=phase,
        _starts=starts,
        _start_pair=g_pair,
        _base_of=base_of,
        _group_of=group_of,
    )


def _same_feeds(c: Compiled, pair: IntArray) -> BoolArray:
    """bool: the pairs of which as many feeds live as in the normal case, so the same ones.

    A loss never brings a feed to life.
    """
    normal = np.flatnonzero(c.pair_case == 0)
    of_load = np.zeros(c.up.shape[1], dtype=np.int64)
    of_load[c.pair_load[normal]] = normal
    before = of_load[c.pair_load[pair]]
    up = c.up[c.pair_case, c.pair_load]
    return np.asarray((c.pair_alive[pair] == c.pair_alive[before]) & (up[pair] == up[before]))


@dataclass(frozen=True)
class _Entries:
    """Entries by what they belong to: `starts` has one end more."""

    starts: IntArray
    column: IntArray
    weight: FloatArray

    def alike(self, one: IntArray, others: IntArray, which: IntArray) -> BoolArray:
        """bool: each of `one` draws on the same feeds by the same weights as `others[which]`.

        Where `which` is -1: it draws on none.
        """
        flows = np.concatenate([[0], np.cumsum(self.weight != 0.0)])
        at = np.flatnonzero(self.weight)
        low, high = flows[self.starts[one]], flows[self.starts[one + 1]]
        mate = others[which] if len(others) else np.zeros(len(which), dtype=np.int64)
        low_b = flows[self.starts[mate]]
        count_b = np.where(which >= 0, flows[self.starts[mate + 1]] - low_b, 0)
        same = high - low == count_b
        for turn in range(int((high - low)[same].max(initial=0))):
            on = np.flatnonzero(same & (high - low > turn))
            mine, theirs = at[low[on] + turn], at[low_b[on] + turn]
            alike = self.column[mine] == self.column[theirs]
            same[on] = alike & (self.weight[mine] == self.weight[theirs])
        return np.asarray(same)


class _Identity:
    """Makes a topology a cache key by identity: equal topologies are compiled where they are."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology

    def __hash__(self) -> int:
        return id(self.topology)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and other.topology is self.topology


@dataclass(frozen=True)
class Shares:
    """Weights for one split of the feeds.

    Attributes:
        base_w: float64[B]; W on a check per W of a load, normal case.
        group_w: float64[G]; the same in changed cells.
        delta_w: float64[G]; change against the normal case.
        more_w: float64[M]; W that a cell may take above its limit; None: nowhere any.
    """

    topology: Topology
    structure: Structure
    base_w: FloatArray
    group_w: FloatArray
    delta_w: FloatArray
    more_w: FloatArray | None = None

    @classmethod
    def of(
        cls,
        topology: Topology,
        split: FloatArray | None = None,
        phases: FloatArray | None = None,
    ) -> Shares:
        """Fold a split into the structure.

        Args:
            topology: the plant.
            split: float64[F], any scale; NaN on a feed: the split of that load is not measured
                (the worse of 65/35 and 35/65); -u: nor is it now, and when it was, one feed had
                the part u (so that is its worst). None: as in the file.
            phases: float64[F, 3], shares of L1..L3; NaN rows count a third each. None: as in
                the file.
        """
        split = topology.split if split is None else split
        if phases is None:
            stated, shares = bool(topology.phases_stated.any()), topology.phases
        else:
            known = np.isfinite(phases).all(axis=1, keepdims=True)
            stated, shares = bool(known.any()), np.where(known, phases, 1.0 / 3.0)
        s = _structure(_Identity(topology), stated)
        if len(s._starts) == 0:
            none = np.zeros(0)
            return cls(topology, s, none, none, none)
        mean, extra = _split_factors(topology, split)
        columns = topology.compiled.feed_column
        folded = []
        for which, terms in ((s._base_of, s.base_terms), (s._group_of, s.group_terms)):
            weight = np.zeros(len(which))
            for turn, term in enumerate(terms):
                value = term.weight
                if stated:
                    of_phase = shares[columns[term.feed], np.maximum(term.phase, 0)]
                    value = value * np.where(term.phase >= 0, of_phase, 1.0)
                if turn == 0:
                    weight[term.at] = mean[term.feed] * value
                else:
                    weight[term.at] += mean[term.feed] * value
            folded.append(weight)
        base, group = folded
        if extra.any():
            most = s._most
            if stated:
                of_phase = shares[columns[s._entry_feed], np.maximum(s._entry_phase, 0)]
                value = s._entry_weight * np.where(s._entry_phase >= 0, of_phase, 1.0)
                most = np.maximum.reduceat(value, s._starts)
            for which, pair, weight in (
                (s._base_of, s.base_pair, base),
                (s._group_of, s.group_pair, group),
            ):
                rows = np.flatnonzero((extra > 0.0)[pair])
                weight[rows] += extra[pair[rows]] * most[which[rows]]
        before = np.append(base, 0.0)[s.group_base]
        return cls(topology, s, base, group, group - before)

    @property
    def cell_limit_w(self) -> FloatArray:
        """float64[M]: limit of each cell, W; inf when unrated."""
        limit = self.structure.limit_w[self.structure.cell_check]
        return limit if self.more_w is None else limit + self.more_w

    def with_loss_limits(self, limit_w: FloatArray) -> Shares:
        """Other limits in every case but the normal one.

        Args:
            limit_w: float64[E], W of whole elements; a phase gets its part. Not finite: as it was.
        """
        s, own = self.structure, self.topology.limit_w
        rated = np.isfinite(own) & np.isfinite(limit_w) & (own > 0.0)
        part = np.where(rated, limit_w / np.where(rated, own, 1.0), 1.0) - 1.0
        limit = s.limit_w[s.cell_check]
        relieved = (s.cell_case > 0) & np.isfinite(limit)
        more = np.where(relieved, np.where(relieved, limit, 0.0), 0.0)
        return replace(self, more_w=more * part[s.check_element[s.cell_check]])

    @property
    def strict(self) -> Shares:
        """With the limits of the topology in every case."""
        return self if self.more_w is None else replace(self, more_w=None)

    def loads_w(self, load_w: FloatArray) -> FloatArray:
        """float64[M]: W on each cell for loads of `load_w` (float64[L], W)."""
        s = self.structure
        checks = len(s.limit_w)
        normal: FloatArray = np.bincount(
            s.base_check, self.base_w * load_w[s.base_load], checks
        ).astype(np.float64)
        change = np.bincount(s.group_cell, self.delta_w * load_w[s.group_load], len(s.cell_check))
        return np.asarray(normal[s.cell_check] + change)

    def slack_w(self, load_w: FloatArray) -> FloatArray:
        """float64[M]: W left on each cell; negative: over its limit. inf when unrated.

        What lies within 1e-9 of the limit counts as exactly at it.
        """
        return self.slack_of(self.loads_w(load_w))

    def slack_of(self, cell_w: FloatArray) -> FloatArray:
        """As `slack_w`, for what `loads_w` said."""
        limit = self.cell_limit_w
        slack = limit - cell_w
        return np.where((np.abs(slack) <= 1e-9 * limit) & np.isfinite(limit), 0.0, slack)

    def row(self, cell: int) -> FloatArray:
        """float64[L]: W on one cell per W of each load."""
        s = self.structure
        out = np.zeros(len(self.topology.loads))
        on = s.base_check == s.cell_check[cell]
        out[s.base_load[on]] = self.base_w[on]
        low, high = np.searchsorted(s.group_cell, [cell, cell + 1])
        out[s.group_load[low:high]] = self.group_w[low:high]
        return out

    def name(self, cell: int) -> tuple[str, str]:
        """Element and case of a cell."""
        s, t = self.structure, self.topology
        element = t.elements[s.check_element[s.cell_check[cell]]]
        return element, t.case_names[s.cell_case[cell]]


def _split_factors(topology: Topology, split: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Per pair feed the certain share, per pair the share that may sit on any one feed alive."""
    c = topology.compiled
    load = c.pair_load
    pairs = len(load)
    wanted = np.where(c.feed_alive, split[c.feed_column], 0.0)
    in_doubt = np.isnan(split) | (split < 0.0)
    unknown = np.bincount(topology.feed_load, in_doubt, minlength=len(topology.loads)) > 0.0
    most = np.full(len(topology.loads), UNMEASURED_SHARE)
    np.fmax.at(most, topology.feed_load, -split)
    wanted = np.where(np.isnan(wanted), 0.0, wanted)
    total = np.bincount(c.feed_pair, wanted, pairs)
    living = np.maximum(c.pair_alive, 1)
    feed_total = total[c.feed_pair]
    equal = c.feed_alive / living[c.feed_pair]
    mean = np.where(feed_total > 0.0, wanted / np.where(feed_total > 0.0, feed_total, 1.0), equal)
    extra = np.zeros(pairs)
    others = np.maximum(topology.feed_counts - 1, 1)
    low = np.where(topology.feed_counts > 1, (1.0 - most) / others, 0.0)[load]
    whole = most[load] + low * (living - 1)
    doubt = unknown[load] & ~topology.hot_spare[load]
    mean = np.where(doubt[c.feed_pair], (low / whole)[c.feed_pair] * c.feed_alive, mean)
    extra = np.where(doubt, (most[load] - low) / whole, extra)
    spare = topology.hot_spare[load] & (c.pair_alive >= 2)
    mean = np.where(spare[c.feed_pair], 0.0, mean)
    extra = np.where(spare, 1.0, extra)
    up = c.up[c.pair_case, load]
    return mean * up[c.feed_pair], extra * up
