// SPDX-License-Identifier: Apache-2.0
//
// Is a text well-formed XML?  As far as plots use it: elements, attributes in double quotes, the five named
// entities and numeric ones; no comments, no declarations.
#pragma once

#include <cctype>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace viaduct::bench {

class WellFormed {
public:
    // What is wrong, with the place; empty: nothing.
    static std::string complaint(std::string_view text) {
        WellFormed check{text};
        if (!check.document()) return check.wrong_ + " at \"" + std::string{check.text_.substr(0, 40)} + "\"";
        return {};
    }

private:
    explicit WellFormed(std::string_view text) : text_(text) {}

    bool fail(const char* what) {
        wrong_ = what;
        return false;
    }
    bool skip(std::string_view expected) {
        if (!text_.starts_with(expected)) return false;
        text_.remove_prefix(expected.size());
        return true;
    }
    void skip_space() {
        while (!text_.empty() && std::isspace(static_cast<unsigned char>(text_.front())))
            text_.remove_prefix(1);
    }
    std::string name() {
        std::size_t length = 0;
        while (length < text_.size() &&
               (std::isalnum(static_cast<unsigned char>(text_[length])) || text_[length] == '-'))
            ++length;
        std::string result{text_.substr(0, length)};
        text_.remove_prefix(length);
        return result;
    }
    bool entity() {
        for (const char* known : {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"}) {
            if (skip(known)) return true;
        }
        return fail("an entity that is none");
    }
    bool attributes() {
        std::vector<std::string> names;
        for (skip_space(); !text_.empty() && text_.front() != '>' && text_.front() != '/'; skip_space()) {
            names.push_back(name());
            if (names.back().empty()) return fail("no attribute name");
            for (std::size_t index = 0; index + 1 < names.size(); ++index) {
                if (names[index] == names.back()) return fail("an attribute twice");
            }
            if (!skip("=\"")) return fail("an attribute without quotes");
            while (!text_.empty() && text_.front() != '"') {
                if (text_.front() == '<') return fail("a tag within an attribute");
                if (text_.front() != '&') {
                    text_.remove_prefix(1);
                } else if (!entity()) {
                    return false;
                }
            }
            if (!skip("\"")) return fail("an attribute without an end");
        }
        return true;
    }
    bool document() {
        std::vector<std::string> open;
        do {
            if (skip("</")) {
                if (open.empty() || name() != open.back() || !skip(">"))
                    return fail("an end tag in the wrong place");
                open.pop_back();
            } else if (skip("<")) {
                open.push_back(name());
                if (open.back().empty()) return fail("no element name");
                if (!attributes()) return false;
                if (skip("/>")) {
                    open.pop_back();
                } else if (!skip(">")) {
                    return fail("a tag without an end");
                }
            } else if (open.empty()) {
                return fail("text outside of the root");
            } else if (text_.starts_with('&')) {
                if (!entity()) return false;
            } else {
                text_.remove_prefix(1);
            }
        } while (!open.empty() && !text_.empty());
        skip_space();
        if (!open.empty()) return fail("an element without an end");
        return text_.empty() || fail("more than one root");
    }

    std::string_view text_;
    std::string wrong_;
};

} // namespace viaduct::bench
