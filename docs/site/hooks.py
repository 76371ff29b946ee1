"""What MkDocs does here as GitHub does it, so that one link serves both."""
import re


def github_anchor(heading, _separator):
    """The id of a heading, as GitHub spells it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def on_config(config):
    config["mdx_configs"]["toc"] = {"slugify": github_anchor, "permalink": False}
    return config


def on_page_content(content, **_):
    """An --option is never broken at its hyphens."""
    return re.sub(r"<code>[^<]*</code>",
                  lambda code: re.sub(r"(?<![\w-])--[\w-]+", r'<span class="option">\g<0></span>', code[0]),
                  content)
