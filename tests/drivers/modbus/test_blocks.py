"""Laws of the planner: everything is read, nothing twice, no request too long."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from drivers.profile import ModbusLimits, ModbusWhere
from drivers.profile.binding import ModbusAt
from drivers.profile.plan import Block, modbus_blocks

places = st.builds(
    lambda address, kind, function: ModbusAt(
        ModbusWhere(function=function, address=address, type=kind), address
    ),
    st.integers(0, 65532),
    st.sampled_from(("u16", "s32", "f64")),
    st.sampled_from(("holding", "input")),
)


@settings(max_examples=150)
@given(st.lists(places, max_size=40), st.integers(4, 125), st.integers(0, 40))
def test_blocks_cover_every_place_within_the_limits(
    wanted: list[ModbusAt], most: int, hole: int
) -> None:
    limits = ModbusLimits(max_block=most, max_hole=hole)
    blocks = modbus_blocks(wanted, limits)
    for block in blocks:
        assert 1 <= block.count <= most
        assert block.address + block.count <= 65536
    for place in wanted:
        covering = [
            b
            for b in blocks
            if b.function == place.where.function
            and b.address <= place.address
            and place.address + place.count <= b.address + b.count
        ]
        assert covering
    assert len(blocks) <= len(set(wanted))


def test_sixty_registers_are_one_request() -> None:
    wanted = [ModbusAt(ModbusWhere(address=a), a) for a in range(60)]
    assert modbus_blocks(wanted, ModbusLimits()) == (Block("holding", 0, 60),)


def test_the_last_register_does_not_wrap() -> None:
    wanted = [ModbusAt(ModbusWhere(address=a), a) for a in (65524, 65534, 65535)]
    assert modbus_blocks(wanted, ModbusLimits()) == (Block("holding", 65524, 12),)
