"""Finds out what a bug report needs: what is installed, what the machine permits, what can be reached.

Nothing is downloaded. Destinations get a directory of a moment, which is removed; each URL gets one request.
"""

from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from cfetch.app.installed import examine_installation, list_faults
from cfetch.app.machine_limits import examine_machine
from cfetch.base.clock import SystemClock
from cfetch.base.config.kinds import is_object_store
from cfetch.base.config.layers import Resolved
from cfetch.base.config.settings import KINDS, Settings
from cfetch.base.errors import UsageError
from cfetch.base.secret import SecretUrl, printable
from cfetch.run.header_hosts import make_list_network
from cfetch.show.doctor_view import DestinationReport, Diagnosis, Reached
from cfetch.show.remedies import GONE
from cfetch.storage.file_system import find_kind, find_standing, probe_file_system
from cfetch.storage.hanging_calls import call_within
from cfetch.wire.network import DIRECT, NETWORK_ENV, Network

PROBE_S = 15.0  # for a file system; a mount whose server is gone never answers


def diagnose(resolved: Resolved, urls: Sequence[str], env: Mapping[str, str]) -> Diagnosis:
    """Look at everything, one after the other; a fault of one part hides no other."""
    settings = resolved.settings
    installation, machine = examine_installation(), examine_machine()
    destinations = [_examine_destination(name) for name in settings.to]
    network, fault = _make_network(settings, urls, env)
    reached = [] if fault else _ask_all(urls, settings, network)
    unused = _list_unused_proxies(network, env)
    problems = [
        *list_faults(installation),
        *([] if fault is None else [fault]),
        *(f"nothing can be written to {each.name}: {each.fault}" for each in destinations if each.fault),
        *_list_unreached(reached),
    ]
    if machine.downloads is not None and machine.downloads < settings.concurrency:
        problems.append(
            f"the most open files ({machine.most_open_files}) are enough for {machine.downloads} downloads "
            f"at a time, and concurrency is {settings.concurrency}; raise ulimit -n or lower --concurrency"
        )
    return Diagnosis(
        installation=installation,
        machine=machine,
        settings=_describe_settings(resolved),
        proxies=[*_describe_proxies(network), *unused],
        destinations=destinations,
        urls=reached,
        problems=problems,
    )


def _describe_settings(resolved: Resolved) -> dict[str, str]:
    """The settings that are not the defaults, with their origin. Values that may hold a secret are hidden."""
    values = resolved.settings.public()
    shown = {}
    for name, origin in resolved.origins.items():
        if origin != "default":
            value = values[name]
            words = value if isinstance(value, str) else KINDS[name].show(value)
            shown[name] = f"{printable(words)} ({printable(origin)})"
    return shown


def _make_network(
    settings: Settings, urls: Sequence[str], env: Mapping[str, str]
) -> tuple[Network, str | None]:
    """The network of the settings; with the fault, if they describe none."""
    try:
        return make_list_network(settings, urls, env), None
    except UsageError as error:
        return DIRECT, str(error)


def _describe_proxies(network: Network) -> Iterator[str]:
    for scheme, proxy in network.proxies.items():
        yield f"{scheme} through {str(proxy).rstrip('/')}"
    if network.proxies and network.no_proxy:
        yield f"without one: {printable(network.no_proxy)}"


def _list_unused_proxies(network: Network, env: Mapping[str, str]) -> list[str]:
    """A line about the variables of the environment that name a proxy, and that no setting reads."""
    names = [name for name in NETWORK_ENV if name.lower().endswith("_proxy") and env.get(name)]
    names = [name for name in names if name.lower() != "no_proxy"]
    if network.proxies or not names:
        return []
    verb = "is" if len(names) == 1 else "are"
    return [f"{', '.join(names)} {verb} set and not used: --proxy-from-env uses such variables"]


def _examine_destination(name: str) -> DestinationReport:
    if is_object_store(name):
        return _examine_store(name)
    path = Path(name).expanduser().absolute()
    shown = printable(str(path), 1000)
    try:
        probed = call_within(PROBE_S, shown, lambda: find_standing(path))
    except OSError as error:
        return DestinationReport(name=shown, fault=_explain(error))
    try:
        can = call_within(PROBE_S, shown, lambda: probe_file_system(probed))
    except OSError as error:
        kind = None if isinstance(error, TimeoutError) else find_kind(probed)
        return DestinationReport(
            name=shown, probed=printable(str(probed), 1000), file_system=kind, fault=_explain(error)
        )
    return DestinationReport(
        name=shown,
        probed=printable(str(probed), 1000),
        file_system=can.kind,
        size_bytes=can.size_bytes,
        free_bytes=can.free_bytes,
        lacks=can.lacks,
    )


def _explain(error: OSError) -> str:
    return error.strerror or type(error).__name__


def _examine_store(name: str) -> DestinationReport:
    """An object store: only whether its library is here. Its login is asked for when a file is."""
    fault = None if find_spec("obstore") else "it needs the library obstore: pip install 'cfetch[cloud]'"
    return DestinationReport(name=printable(name), file_system="object store", fault=fault)


def _ask_all(urls: Sequence[str], settings: Settings, network: Network) -> list[Reached]:
    if not urls:
        return []
    import asyncio  # it takes longer to import than all else here, and there may be no URL

    from cfetch.wire.reach import Answered, find_proxy, reach
    from cfetch.wire.transport import RunTransport

    async def ask_all() -> list[Answered]:
        transport = RunTransport(connect_timeout_s=settings.connect_timeout, network=network)
        try:
            return [
                await reach(
                    SecretUrl(url),
                    transport,
                    SystemClock(),
                    replies=settings.replies,
                    limit_s=settings.connect_timeout + settings.first_byte_s,
                )
                for url in urls
            ]
        finally:
            await transport.close()

    return [
        Reached(
            url=str(SecretUrl(url)),
            proxy=find_proxy(SecretUrl(url), network),
            status=answered.status,
            elapsed_s=answered.elapsed_s,
            address=answered.address,
            final=None if answered.final is None else str(answered.final),
            fault=answered.fault,
        )
        for url, answered in zip(urls, asyncio.run(ask_all()), strict=True)
    ]


def _list_unreached(reached: Sequence[Reached]) -> Iterator[str]:
    for each in reached:
        if each.fault is None:
            continue
        way = f" through {each.proxy}" if each.proxy else ""
        remedy = "; check the link" if each.status in GONE else ""
        yield f"{each.url} cannot be had{way}: {each.fault}{remedy}"
