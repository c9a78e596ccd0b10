// SPDX-License-Identifier: Apache-2.0
// The trap: the histograms of a large network are tens of megabytes of numbers. So the file is read by events, not as a
// tree: a histogram is there until its tensor ends.
#include "tools/library/ranges_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "stream/error.h"
#include "stream/file/file.h"
#include "stream/nearest_name.h"
#include "stream/printable.h"
#include "tools/library/json_error.h"

namespace lowtide::tools {
namespace {

using Json = nlohmann::json;
using layout::CalibratedTensor;
using layout::RangeChoice;
using stream::Code;
using stream::Error;

constexpr uint64_t kMostBytes = uint64_t{1} << 30;
constexpr size_t kMostBins = 2048;
constexpr size_t kMostChannels = size_t{1} << 20;
constexpr double kMostMagnitude = std::numeric_limits<float>::max();
constexpr const char* kFormat = "lowtide-ranges";
constexpr int64_t kVersion = 1;

// The bytes of a file, one after the other, for the parser.
class Bytes {
 public:
  explicit Bytes(const stream::Source& source) : source_(source), block_(kBlock) { fill(); }
  bool at_end() const { return begin_ + place_ >= source_.size(); }
  char get() const { return block_[place_]; }
  void next() {
    if (++place_ < block_.size() || at_end()) return;
    begin_ += place_;
    fill();
  }

 private:
  static constexpr size_t kBlock = size_t{64} << 10;
  void fill() {
    place_ = 0;
    block_.resize(static_cast<size_t>(std::min<uint64_t>(kBlock, source_.size() - begin_)));
    source_.read_at(begin_, std::as_writable_bytes(std::span(block_)));
  }
  const stream::Source& source_;
  std::vector<char> block_;
  uint64_t begin_ = 0;
  size_t place_ = 0;
};

class ByteIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = char;
  explicit ByteIterator(Bytes* bytes = nullptr) : bytes_(bytes) {}
  char operator*() const { return bytes_->get(); }
  ByteIterator& operator++() {
    bytes_->next();
    return *this;
  }
  void operator++(int) { bytes_->next(); }
  bool operator==(const ByteIterator& other) const { return is_end() == other.is_end(); }

 private:
  bool is_end() const { return bytes_ == nullptr || bytes_->at_end(); }
  Bytes* bytes_;
};

// One tensor, as far as it was read.
struct RangesEntry {
  std::optional<double> least, most, inner_least, inner_most, low, width;
  std::optional<uint64_t> elements, not_finite, channel_axis;
  std::vector<uint64_t> counts;
  std::map<std::string, std::vector<float>> channels;  // channel_mean, channel_min, channel_max, channel_shift
  std::set<std::string> keys;
};

std::optional<RangeChoice> range_choice_of(const std::string& text) {
  constexpr std::string_view kPercentile = "percentile:";
  if (text == "mse") return RangeChoice{.method = RangeChoice::Method::kLeastError};
  if (text == "minmax") return RangeChoice{.method = RangeChoice::Method::kMinMax};
  if (!text.starts_with(kPercentile)) return std::nullopt;
  double percent = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data() + kPercentile.size(), end, percent, std::chars_format::fixed);
  if (error != std::errc() || rest != end || !(percent > 50 && percent <= 100)) return std::nullopt;
  return RangeChoice{.method = RangeChoice::Method::kPercentile, .percent = percent};
}

RangeChoice range_choice(const std::string& text) {
  if (const auto choice = range_choice_of(text)) return *choice;
  throw Error(
      Code::kUsage,
      fmt::format("--range: '{}' is none of mse, minmax and percentile:P, with P above 50 and at most 100", text));
}

// The levels of the file: { choice: { decibels: {...} }, tensors: { NAME: { histogram: { counts: [...] } } } }.
enum class Level {
  kStart,
  kFile,
  kUnseen,
  kTensors,
  kTensor,
  kHistogram,
  kCounts,
  kChannels,
  kChoice,
  kDecibels,
  kEnd
};

class Events : public nlohmann::json_sax<Json> {
 public:
  Events(std::string path, QuantizeSettings given, stream::DType activations)
      : path_(std::move(path)), given_(std::move(given)), is_symmetric_(activations == stream::DType::kInt16) {
    out_.file = path_;
    out_.activations = activations;
  }
  layout::Calibrated take() {
    for (const char* key : {"format", "version", "graph", "samples", "unseen", "tensors"})
      if (!keys_.contains(key)) fail(fmt::format("'{}' is missing", key));
    if (uses_shifts_ && !has_shifts_)
      throw Error(
          Code::kUsage,
          "--correct layers: no tensor of the ranges file has a 'channel_shift'; calibrate with --correct-layers",
          {.file = path_});
    return std::move(out_);
  }

  bool null() override { wrong("null"); }
  bool boolean(bool value) override { wrong(value ? "true" : "false"); }
  bool binary(Json::binary_t&) override { wrong("bytes"); }
  bool number_integer(int64_t value) override { return number(static_cast<double>(value), std::nullopt, {}, value); }
  bool number_unsigned(uint64_t value) override {
    const auto fits = value <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    return number(static_cast<double>(value), value, {},
                  fits ? std::optional(static_cast<int64_t>(value)) : std::nullopt);
  }
  bool number_float(double value, const std::string& text) override {
    return number(value, std::nullopt, text, std::nullopt);
  }

  bool string(std::string& value) override {
    switch (level_) {
      case Level::kFile:
        if (key_ == "format" && value == kFormat) return true;
        if (key_ == "format") fail(fmt::format("format: '{}' is not {}", shown(value), kFormat));
        if (key_ != "graph") break;
        if (value.size() != 16 || value.find_first_not_of("0123456789abcdef") != std::string::npos)
          fail(fmt::format("graph: '{}' is no digest of 16 hexadecimal digits", shown(value)));
        out_.graph = value;
        return true;
      case Level::kChoice:
        if (key_ == "samples" || key_ == "decibels") break;
        chosen_[key_] = value;
        return true;
      case Level::kUnseen:
        out_.unseen.insert(value);
        return true;
      default:
        break;
    }
    wrong(fmt::format("the text '{}'", shown(value)));
  }

  bool start_object(size_t) override {
    if (level_ == Level::kStart)
      level_ = Level::kFile;
    else if (level_ == Level::kFile && key_ == "choice")
      level_ = Level::kChoice;
    else if (level_ == Level::kChoice && key_ == "decibels")
      level_ = Level::kDecibels;
    else if (level_ == Level::kFile && key_ == "tensors")
      level_ = Level::kTensors, settle();
    else if (level_ == Level::kTensors)
      level_ = Level::kTensor, entry_ = {};
    else if (level_ == Level::kTensor && key_ == "histogram")
      level_ = Level::kHistogram;
    else
      wrong("an object");
    return true;
  }

  bool key(std::string& name) override {
    key_ = name;
    if (level_ == Level::kTensors) {
      tensor_ = name;
      if (out_.tensors.contains(name)) fail(fmt::format("the tensor '{}' is given twice", shown(name)));
      return true;
    }
    if (level_ == Level::kDecibels) return true;  // for people
    static const std::vector<std::string> kFileKeys = {"format", "version", "graph",  "samples",
                                                       "unseen", "choice",  "tensors"};
    static const std::vector<std::string> kChoiceKeys = {"quantize", "range",   "equalize",
                                                         "correct",  "samples", "decibels"};
    static const std::vector<std::string> kTensorKeys = {"min",          "inner_min",   "inner_max",   "max",
                                                         "elements",     "not_finite",  "histogram",   "channel_axis",
                                                         "channel_mean", "channel_min", "channel_max", "channel_shift"};
    static const std::vector<std::string> kHistogramKeys = {"low", "width", "counts"};
    const auto& known = level_ == Level::kFile     ? kFileKeys
                        : level_ == Level::kChoice ? kChoiceKeys
                        : level_ == Level::kTensor ? kTensorKeys
                                                   : kHistogramKeys;
    if (std::find(known.begin(), known.end(), name) == known.end())
      fail(fmt::format("{}'{}' is not known{}", place(false), shown(name), stream::did_you_mean(name, known)));
    const std::string whole = (level_ == Level::kHistogram ? "histogram."
                               : level_ == Level::kChoice  ? "choice."
                                                           : "") +
                              name;
    const bool is_of_file = level_ == Level::kFile || level_ == Level::kChoice;
    if (!(is_of_file ? keys_ : entry_.keys).insert(whole).second)
      fail(fmt::format("{}'{}' is given twice", place(false), name));
    return true;
  }

  bool end_object() override {
    switch (level_) {
      case Level::kHistogram:
        level_ = Level::kTensor;
        key_ = "histogram";
        break;
      case Level::kTensor:
        finish_tensor();
        level_ = Level::kTensors;
        break;
      case Level::kDecibels:
        level_ = Level::kChoice;
        break;
      case Level::kChoice:
        finish_choice();
        level_ = Level::kFile;
        break;
      case Level::kTensors:
        level_ = Level::kFile;
        break;
      default:
        level_ = Level::kEnd;
    }
    return true;
  }

  bool start_array(size_t) override {
    if (level_ == Level::kFile && key_ == "unseen")
      level_ = Level::kUnseen;
    else if (level_ == Level::kHistogram && key_ == "counts")
      level_ = Level::kCounts;
    else if (level_ == Level::kTensor && key_.starts_with("channel_") && key_ != "channel_axis")
      level_ = Level::kChannels;
    else
      wrong("a list");
    return true;
  }

  bool end_array() override {
    level_ = level_ == Level::kUnseen ? Level::kFile : level_ == Level::kCounts ? Level::kHistogram : Level::kTensor;
    return true;
  }

  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& error) override {
    fail(place(true) + json_error(error));
  }

 private:
  // Names of tensors come from models.
  static std::string shown(const std::string& text) { return stream::printable(text); }

  // "tensor 'x': min: "
  std::string place(bool with_key) const {
    const bool in_tensor = level_ == Level::kTensor || level_ == Level::kHistogram || level_ == Level::kCounts ||
                           level_ == Level::kChannels;
    std::string out = in_tensor ? fmt::format("tensor '{}': ", shown(tensor_)) : "";
    const bool in_histogram = level_ == Level::kHistogram || level_ == Level::kCounts;
    if (with_key && !key_.empty() && level_ != Level::kStart && level_ != Level::kTensors)
      out += fmt::format("{}{}: ",
                         in_histogram               ? "histogram."
                         : level_ == Level::kChoice ? "choice."
                                                    : "",
                         shown(key_));
    return out;
  }
  [[noreturn]] void fail(std::string text) const { throw Error(Code::kMalformed, std::move(text), {.file = path_}); }
  [[noreturn]] void wrong(const std::string& what) const {
    fail(level_ == Level::kStart ? "it is no file of lowtide calibrate"
                                 : fmt::format("{}{} is not what stands here", place(true), what));
  }
  [[noreturn]] void fail_tensor(const std::string& text) const {
    fail(fmt::format("tensor '{}': {}", shown(tensor_), text));
  }

  // `count`: the number if it is a whole one from 0 on.
  bool number(double value, std::optional<uint64_t> count, const std::string& text, std::optional<int64_t> whole) {
    const std::string digits = text.empty() ? fmt::format("{}", whole ? static_cast<double>(*whole) : value) : text;
    auto real = [&](double most = kMostMagnitude) {
      if (!(std::fabs(value) <= most)) fail(fmt::format("{}{} is no number of f32", place(true), digits));
      return value;
    };
    auto counted = [&] {
      if (!count) fail(fmt::format("{}{} is no count", place(true), digits));
      return *count;
    };
    switch (level_) {
      case Level::kFile:
        if (key_ == "version" && whole == kVersion) return true;
        if (key_ == "version")
          fail(fmt::format("version {} of the format, and this program knows {}", digits, kVersion));
        if (key_ != "samples") break;
        if (counted() == 0) fail("samples: there were none");
        return true;
      case Level::kTensor:
        if (key_ == "min") return set(entry_.least, real());
        if (key_ == "max") return set(entry_.most, real());
        if (key_ == "inner_min") return set(entry_.inner_least, real());
        if (key_ == "inner_max") return set(entry_.inner_most, real());
        if (key_ == "elements") return set(entry_.elements, counted());
        if (key_ == "not_finite") return set(entry_.not_finite, counted());
        if (key_ == "channel_axis") return set(entry_.channel_axis, counted());
        break;
      case Level::kChoice:
        if (key_ != "samples") break;
        counted();
        return true;
      case Level::kDecibels:
        return true;
      case Level::kHistogram:
        // The lower edge of a bin may be below the lowest float.
        if (key_ == "low") return set(entry_.low, real(2 * kMostMagnitude));
        if (key_ == "width") return set(entry_.width, real());
        break;
      case Level::kCounts:
        if (entry_.counts.size() == kMostBins)
          fail_tensor(fmt::format("histogram: it has more than {} bins", kMostBins));
        entry_.counts.push_back(counted());
        return true;
      case Level::kChannels:
        if (entry_.channels[key_].size() == kMostChannels)
          fail_tensor(fmt::format("{}: it has more than {} channels", key_, kMostChannels));
        entry_.channels[key_].push_back(static_cast<float>(real()));
        return true;
      default:
        break;
    }
    wrong(digits);
  }
  template <typename T>
  static bool set(std::optional<T>& field, T value) {
    field = value;
    return true;
  }

  void finish_choice() {
    if (keys_.contains("tensors")) fail("'choice' must stand before 'tensors'");
    for (const char* key : {"quantize", "range", "equalize", "correct"})
      if (!chosen_.contains(key)) fail(fmt::format("choice: '{}' is missing", key));
    const std::string of = is_symmetric_ ? "int16x8" : "int8";
    check_word("quantize", {"int8", "int16x8"});
    check_word("equalize", {"channels", "none"});
    check_word("correct", {"means", "layers", "none"});
    if (!range_choice_of(chosen_["range"]))
      fail(fmt::format("choice.range: '{}' is no method", shown(chosen_["range"])));
    if (chosen_["quantize"] != of) chosen_.clear();  // what is best for another type
  }
  void check_word(const std::string& key, std::initializer_list<std::string_view> known) {
    if (std::find(known.begin(), known.end(), chosen_[key]) == known.end())
      fail(fmt::format("choice.{}: '{}' is not one of {}", key, shown(chosen_[key]), fmt::join(known, ", ")));
  }

  // What is given goes before what the file has chosen, and that before the defaults. Histograms need it.
  void settle() {
    auto of = [&](const std::string& given, const char* key, const char* otherwise) {
      if (!given.empty()) return given;
      const auto chosen = chosen_.find(key);
      return chosen == chosen_.end() ? std::string(otherwise) : chosen->second;
    };
    choice_ = range_choice(of(given_.range, "range", "mse"));
    out_.equalize = of(given_.equalize, "equalize", "channels") == "channels";
    const std::string correct = of(given_.correct, "correct", "means");
    out_.correct_biases = correct != "none";
    uses_shifts_ = correct == "layers";
  }

  void finish_tensor() {
    const RangesEntry& e = entry_;
    for (const char* key :
         {"min", "max", "elements", "histogram", "histogram.low", "histogram.width", "histogram.counts"})
      if (!e.keys.contains(key)) fail_tensor(fmt::format("'{}' is missing", key));
    if (!e.least || !e.most || !e.elements || !e.low || !e.width) fail_tensor("a field has a wrong type");
    if (*e.least > *e.most) fail_tensor(fmt::format("its least value {} is above its largest, {}", *e.least, *e.most));
    for (const auto& inner : {e.inner_least, e.inner_most})
      if (inner && !(*e.least <= *inner && *inner <= *e.most && std::fabs(*inner) < -layout::kMask))
        fail_tensor(fmt::format("its inner value {} is not between {} and {}", *inner,
                                std::max(*e.least, layout::kMask), std::min(*e.most, -layout::kMask)));
    if (!(*e.width > 0)) fail_tensor(fmt::format("histogram.width: {} is not above 0", *e.width));
    // Sums of counts are exact in a double, and do not overflow.
    uint64_t total = 0;
    for (const uint64_t n : e.counts) {
      if (n > (uint64_t{1} << 53) || (total += n) > (uint64_t{1} << 53))
        fail_tensor(fmt::format("histogram.counts: {} values are too many", n));
    }
    if (total == 0) fail_tensor("histogram.counts: there is no value in any bin");
    if (total > *e.elements) fail_tensor(fmt::format("histogram.counts: {} values of {} elements", total, *e.elements));
    const double high = *e.low + *e.width * static_cast<double>(e.counts.size());
    if (!(std::fabs(high) <= 2 * kMostMagnitude)) fail_tensor(fmt::format("histogram: its end {} is too large", high));
    check_channels();
    constexpr int64_t kSteps8 = 255, kSteps16 = 65534;
    const layout::Observed seen{*e.least, *e.most, *e.low, *e.width, e.counts, e.inner_least, e.inner_most};
    CalibratedTensor tensor;
    tensor.seen = {*e.least, *e.most};
    tensor.mean_square = layout::mean_square(seen);
    tensor.is_finite = e.not_finite.value_or(0) == 0;
    tensor.unmasked = layout::unmasked(seen);
    tensor.interval = layout::choose_range(seen, choice_, is_symmetric_ ? kSteps16 : kSteps8, is_symmetric_);
    tensor.channel_means = std::move(entry_.channels["channel_mean"]);
    tensor.channel_lows = std::move(entry_.channels["channel_min"]);
    tensor.channel_highs = std::move(entry_.channels["channel_max"]);
    if (uses_shifts_) tensor.channel_shifts = std::move(entry_.channels["channel_shift"]);
    has_shifts_ = has_shifts_ || !tensor.channel_shifts.empty();
    out_.tensors.emplace(tensor_, std::move(tensor));
  }

  void check_channels() const {
    std::optional<size_t> count;
    for (const auto& [key, list] : entry_.channels) {
      if (!entry_.channel_axis) fail_tensor("'channel_axis' is missing");
      if (count && *count != list.size())
        fail_tensor(fmt::format("{}: {} channels, and {} in another list", key, list.size(), *count));
      count = list.size();
    }
    const auto lows = entry_.channels.find("channel_min"), highs = entry_.channels.find("channel_max");
    if ((lows == entry_.channels.end()) != (highs == entry_.channels.end()))
      fail_tensor("'channel_min' and 'channel_max' go together");
    for (size_t i = 0; lows != entry_.channels.end() && i < lows->second.size(); ++i)
      if (lows->second[i] > highs->second[i])
        fail_tensor(
            fmt::format("channel_min: {} is above the largest of the channel, {}", lows->second[i], highs->second[i]));
  }

  const std::string path_;
  const QuantizeSettings given_;
  const bool is_symmetric_;
  RangeChoice choice_;
  std::map<std::string, std::string> chosen_;
  layout::Calibrated out_;
  bool uses_shifts_ = false, has_shifts_ = false;
  Level level_ = Level::kStart;
  std::string key_, tensor_;
  std::set<std::string> keys_;
  RangesEntry entry_;
};

}  // namespace

layout::Calibrated read_ranges(const std::string& path, const QuantizeSettings& given, stream::DType activations) {
  if (!given.range.empty()) range_choice(given.range);
  const auto source = stream::open_file(path);
  if (source->size() > kMostBytes)
    throw Error(Code::kMalformed, fmt::format("a ranges file has at most {} bytes", kMostBytes), {.file = path});
  Bytes bytes(*source);
  Events events(path, given, activations);
  Json::sax_parse(ByteIterator(&bytes), ByteIterator(), &events);
  return events.take();
}

}  // namespace lowtide::tools
