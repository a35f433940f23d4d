// The style sheet of a report.
#pragma once

namespace tierfs::iobench {

/// CSS for the page. Colours of series (--look-N) differ in lightness as well as in hue, so that they can be
/// told apart by the colour-blind and on grey paper; the dark theme has lighter ones.
extern const char* const kStyle;

}  // namespace tierfs::iobench
