from aggregator.adapters.gateway import Gateway as Gateway
from aggregator.adapters.gateway import Tool as Tool
from aggregator.adapters.gateway import open_gateway as open_gateway
from aggregator.domain.errors import AggregatorError as AggregatorError
from aggregator.domain.errors import OperatorError as OperatorError
from aggregator.domain.errors import RpcError as RpcError

__version__: str
DISTRIBUTION: str
__all__: list[str]
LAYERS: tuple[tuple[str, ...], ...]
INNER_LAYERS: dict[str, tuple[tuple[str, ...], ...]]
FEATURES: dict[str, dict[str, str]]
