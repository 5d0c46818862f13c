"""How the screen looks, in Textual's CSS; the colors are those of ``palette``."""

from typing import Final

STYLE: Final = """
Screen {
    background: #10151c;
    color: #d7dee8;
}
#header {
    height: auto;
    min-height: 2;
    max-height: 3;
    text-wrap: nowrap;
    text-overflow: ellipsis;
    background: #161d27;
}
#frame {
    border: round #3a4d66;
    border-title-color: #56b4e9;
    border-title-style: bold;
    border-subtitle-color: #e69f00;
    padding: 0;
    height: 1fr;
}
#frame.alarm {
    border: round #ff7043;
}
#footer {
    height: 1;
    text-wrap: nowrap;
    text-overflow: ellipsis;
    background: #161d27;
}
#line {
    display: none;
    height: 1;
    background: #223044;
}
#sign {
    width: 2;
    color: #56b4e9;
    text-style: bold;
}
#prompt {
    height: 1;
    width: 1fr;
    background: #223044;
    color: #ffffff;
    border: none;
    padding: 0;
}
* {
    scrollbar-color: #3a4d66;
    scrollbar-color-hover: #56b4e9;
    scrollbar-color-active: #56b4e9;
    scrollbar-background: #10151c;
    scrollbar-background-hover: #10151c;
    scrollbar-background-active: #10151c;
    scrollbar-corner-color: #10151c;
}
RowsTable {
    background: #10151c;
    color: #d7dee8;
    height: 1fr;
    scrollbar-size-vertical: 1;
    scrollbar-size-horizontal: 1;
}
ModalScreen {
    align: center middle;
    background: #10151c 60%;
}
.dialog {
    background: #161d27;
    border: round #56b4e9;
    border-title-color: #56b4e9;
    border-title-style: bold;
    border-subtitle-color: #7d8a9a;
    padding: 0 1;
    width: 90%;
    max-width: 140;
    height: auto;
    max-height: 90%;
    scrollbar-size-vertical: 1;
}
.asking {
    border: round #e69f00;
    border-title-color: #e69f00;
    max-width: 100;
}
.preview {
    height: auto;
    max-height: 60vh;
    scrollbar-size-vertical: 1;
}
.editing {
    height: 80%;
}
.dialog Label {
    color: #7d8a9a;
    width: 100%;
}
.field {
    border: tall #3a4d66;
    background: #10151c;
}
.editing TextArea {
    background: #10151c;
    border: none;
    height: 1fr;
}
"""
