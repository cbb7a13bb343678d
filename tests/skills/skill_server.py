"""A server with skills, on the real SDK: every transport, both eras. Its lists and files can be falsified."""

import base64
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

import mcp_types as types
from mcp.server.subscriptions import ResourcesListChanged
from mcp.shared.exceptions import MCPError

from tests.peers.library import Library
from tests.peers.sdk import Context
from tests.peers.toolbox import Json, tool

EXTENSION: Final = "io.modelcontextprotocol/skills"
FORMS: Final = "# Forms\n\nFill them in, é.\n"
LOGO: Final = bytes(range(256))
_PAGE: Final = 2
_servers: dict[str, "SkillServer"] = {}


def __getattr__(name: str) -> "SkillServer":
    """Return the server that the `target` of a `local` upstream names."""
    try:
        return _servers[name]
    except KeyError:
        raise AttributeError(name) from None


def local(server: "SkillServer", **fields: Any) -> Json:
    """The entry of a server in this process."""
    name = f"server_{len(_servers)}"
    _servers[name] = server
    return {"target": f"{__name__}:{name}", **fields}


def skill_md(name: str, description: str, body: str = "Do it well.\n", **more: str) -> str:
    """The text of a SKILL.md."""
    lines = "".join(f"{key}: {value}\n" for key, value in {"name": name, "description": description, **more}.items())
    return f"---\n{lines}---\n\n{body}"


def git_workflow(where: str = "here") -> dict[str, str | bytes]:
    """The files of a skill with a text and a picture beside its SKILL.md."""
    return {
        "SKILL.md": skill_md("git-workflow", f"Follow the Git conventions of {where}", license="MIT"),
        "references/FORMS.md": FORMS,
        "assets/logo.bin": LOGO,
    }


def entry_of(root: str, files: Mapping[str, str | bytes], frontmatter: Json) -> Json:
    """The entry of a skill with these files; the digests are right."""
    resources = []
    for path, content in files.items():
        raw = content.encode() if isinstance(content, str) else content
        resources.append({"uri": f"{root}/{path}", "digest": f"sha256:{sha256(raw).hexdigest()}", "size": len(raw)})
    return {"uri": f"{root}/SKILL.md", "frontmatter": frontmatter, "resources": resources}


class SkillServer(Library):
    """A library with skills.

    skills: the entries of its list. unlisted: those that only `skills/get` knows. files: what is read, by URI.
    directories: whether it declares `directoryRead`.
    """

    def __init__(self, name: str = "docs", *, directories: bool = True, tells: bool = True) -> None:
        super().__init__(name, tells=tells)
        self.lists["tools"] = [tool("search", "Searches the pages of the wiki.")]
        self.lists["resources"] = self.lists["resources"][:1]
        self.skills: list[Any] = []
        self.unlisted: list[Json] = []
        self.files: dict[str, str | bytes] = {}
        self.mixed: dict[str, list[Json]] = {}
        self.directories = directories
        self.declares = True
        self.requests: list[tuple[str, Any]] = []

    def add_skill(
        self,
        path: str,
        files: Mapping[str, str | bytes],
        *,
        scheme: str = "skill",
        listed: bool = True,
        dynamic: bool = False,
        **more: Any,
    ) -> Json:
        """Add a skill with its files; `more` is in the entry."""
        root = f"{scheme}://{path}"
        text = files["SKILL.md"]
        assert isinstance(text, str)
        lines = text.split("---\n")[1].splitlines()
        frontmatter: Json = dict(line.split(": ", 1) for line in lines)
        made = {**entry_of(root, files, frontmatter), **({"resources": "dynamic"} if dynamic else {}), **more}
        self.files.update({f"{root}/{path}": content for path, content in files.items()})
        (self.skills if listed else self.unlisted).append(made)
        return made

    async def changed(self) -> None:
        """Tell subscribers that the lists of resources changed."""
        await self.bus.publish(ResourcesListChanged())

    def get_capabilities(self, *args: Any, **kwargs: Any) -> types.ServerCapabilities:
        extensions = {EXTENSION: {"directoryRead": True} if self.directories else {}} if self.declares else None
        return super().get_capabilities(*args, **kwargs).model_copy(update={"extensions": extensions})

    async def _made(self, ctx: Context, params: Json) -> Json | None:
        self.requests.append((ctx.method, params.get("uri")))
        if ctx.method in self.broken:
            return await self.broken[ctx.method]()
        match ctx.method:
            case "skills/list":
                return self._page("skills", self.skills, params)
            case "skills/get":
                found = next((one for one in (*self.skills, *self.unlisted) if one["uri"] == params["uri"]), None)
                if found is None:
                    raise MCPError(types.INVALID_PARAMS, f"No skill is served at {params['uri']}")
                return {"skill": found, **self.hints}
            case "resources/directory/read" if self.directories:
                return self._directory(params)
            case "resources/read" if params["uri"] in self.mixed:
                return {"contents": self.mixed[params["uri"]]}
            case "resources/read" if params["uri"] in self.files:
                content = self.files[params["uri"]]
                if isinstance(content, bytes):
                    return {"contents": [{"uri": params["uri"], "blob": base64.b64encode(content).decode()}]}
                return {"contents": [{"uri": params["uri"], "mimeType": "text/markdown", "text": content}]}
        return await super()._made(ctx, params)

    def _directory(self, params: Json) -> Json:
        head = f"{params['uri']}/"
        names = dict.fromkeys(uri.removeprefix(head).partition("/")[:2] for uri in self.files if uri.startswith(head))
        if not names:
            raise MCPError(types.INVALID_PARAMS, f"{params['uri']} is not a directory resource")
        held = [
            {"uri": head + name, "name": name, **({"mimeType": "inode/directory"} if slash else {})}
            for name, slash in names
        ]
        return self._page("resources", held, params)

    def _page(self, field: str, items: list[Any], params: Json) -> Json:
        start = int(params.get("cursor", "0"))
        more = {"nextCursor": str(start + _PAGE)} if start + _PAGE < len(items) else {}
        return {field: items[start : start + _PAGE], **more}
