"""Makes a plot's SVG part of a page: with the page's colours and font."""

from __future__ import annotations

import re


def themed(svg: str, salt: str) -> str:
    """The SVG without standalone parts, with CSS variables for colours and unique ids."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<svg [^>]*?(viewBox=\"[^\"]*\")[^>]*>", r'<svg xmlns="http://www.w3.org/2000/svg" \1 aria-hidden="true">', svg, count=1)
    svg = re.sub(r"#00aa(\d\d)", lambda match: f"var(--c{match[1]})", svg)
    svg = re.sub(r'xlink:href="#(\w+)\.s(\d+)"', r'href="#\1" data-series="\2" tabindex="-1"', svg)
    svg = svg.replace("xlink:href", "href").replace(' target="_blank"', "")
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{salt}-\1"', svg)
    svg = re.sub(r'\bhref="#(?!\w+" data-series)([^"]+)"', rf'href="#{salt}-\1"', svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{salt}-\1)", svg)
    svg = re.sub(r'<g clip-path="[^"]*">\s*(<use [^>]*/>)\s*</g>', r"\1", svg)  # dots are whole, also on the border
    return re.sub(r"\n\s*", "\n", _styled(svg, salt))


def _styled(svg: str, salt: str) -> str:
    """Repeated style attributes replaced by classes, which shortens the text."""
    styles = dict[str, str]()

    def shortened(match: re.Match[str]) -> str:
        name = styles.setdefault(match[2], f"{salt}-{len(styles)}")
        return f'{match[1]}class="{name}"'

    svg = re.sub(r'(<(?:use|path) [^>]*?)style="([^"]*)"', shortened, svg)
    svg = re.sub(r'\b(x|y)="(-?\d+\.\d)\d*"', r'\1="\2"', svg)
    rules = "".join(f".{name}{{{style}}}" for style, name in styles.items())
    return svg.replace("<defs>", f"<style>{rules}</style>\n<defs>", 1)
