"""What a diagnosis is made of: things to know, a name for programs and a sentence for people each."""

from dataclasses import dataclass

from rpmodels.profile import Departure


@dataclass(frozen=True)
class Finding:
    """One thing to know: a name for programs, a sentence for people."""

    name: str
    text: str
    where: Departure | None = None
    """Of data that do not belong to those of the fit: which factor, channels, trials and sites."""


@dataclass(frozen=True)
class Diagnosis:
    """All that was found; empty when nothing is amiss."""

    findings: tuple[Finding, ...]
    notes: tuple[Finding, ...] = ()
    """What is good to know, and nobody's fault: what cannot be told of such a model, or from such a file."""

    def __contains__(self, name: object) -> bool:
        return any(each.name == name for each in (*self.findings, *self.notes))

    def __repr__(self) -> str:
        lines = [f"{each.name}: {each.text}" for each in self.findings] or ["nothing amiss"]
        return "\n".join([*lines, *(f"(to know) {each.name}: {each.text}" for each in self.notes)])
