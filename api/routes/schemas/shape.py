"""What every answer and request is, and what a fault looks like."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Reason = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=3, max_length=500, pattern=r"^[^\x00]*$"),
]
ModeName = Literal["off", "observe", "advise", "auto"]


class Shape(BaseModel):
    """Read from our own views as they are."""

    model_config = ConfigDict(from_attributes=True)


class Wish(BaseModel):
    """Sent by people: unknown members and numbers that are not finite are refused."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class FieldProblem(Shape):
    """One fault of a request: where, and what."""

    where: str
    problem: str


class ProblemOut(Shape):
    """RFC 9457 problem document, media type application/problem+json."""

    model_config = ConfigDict(title="Problem")

    type: str
    title: str
    status: int
    code: str = Field(description="stable identifier")
    detail: str
    instance: str
    errors: list[FieldProblem] | None = None
    bounded_by: str | None = Field(None, description="what stands in the way of a refused wish")
    needs: str | None = Field(None, description="the role needed")
    consequences: list[dict[str, Any]] | None = Field(None, description="what it would cost")
    accept: list[str] | None = Field(None, description="kinds of it that must be accepted")
