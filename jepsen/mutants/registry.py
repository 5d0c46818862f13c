"""All mutants, by the name that ``--inject-bug`` has for them."""

from typing import Final

from quorate.jepsen.mutants import deciding, following, grouping, leading, transacting
from quorate.jepsen.mutants.mutant import Mutant

MUTANTS: Final[dict[str, Mutant]] = {
    mutant.name: mutant
    for mutant in (
        *(*leading.MUTANTS, *following.MUTANTS, *deciding.MUTANTS),
        *(*grouping.MUTANTS, *transacting.MUTANTS),
    )
}
