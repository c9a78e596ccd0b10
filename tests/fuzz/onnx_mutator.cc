// SPDX-License-Identifier: Apache-2.0
// libFuzzer's mutator for ONNX models: changes them as messages instead of as bytes, so that most of what comes out is
// still a model, whose names refer to each other and whose tensors have as many bytes as their shapes say.
//
// It knows the schema from protobuf's reflection and takes its strings from the inputs: a string is replaced
// by one from the same field of another model, a node or an attribute by one of another model.
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/dynamic_message.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr size_t kMaxWords = 4096;  // that are learned for a field
constexpr size_t kMaxParts = 512;   // that are learned for a kind of message
constexpr int kMaxPart = 2048;      // bytes of such a message
constexpr int kMostSteps = 4;       // in one mutation
constexpr uint64_t kMaxTensor = 4096;

constexpr std::array<int64_t, 30> kNumbers = {
    0,     1,     2,         3,         4,         5,         7,         8,         15,        16,
    17,    31,    32,        63,        64,        127,       128,       255,       256,       1000,
    65535, 65536, INT32_MAX, 1LL << 31, 1LL << 32, 1LL << 40, 1LL << 61, 1LL << 62, INT64_MAX, INT64_MAX - 1};
constexpr std::array<double, 16> kReals = {0.0,
                                           -0.0,
                                           1,
                                           -1,
                                           0.5,
                                           2,
                                           1e-45,
                                           1e-10,
                                           1e10,
                                           3.4e38,
                                           -3.4e38,
                                           65504,
                                           2147483648.0,
                                           std::numeric_limits<double>::infinity(),
                                           -std::numeric_limits<double>::infinity(),
                                           std::numeric_limits<double>::quiet_NaN()};

// schemas/onnx.proto with reflection, which the library's generated code does not have.
class Schema {
 public:
  Schema() : factory_(&pool_) {
    google::protobuf::SetLogHandler(nullptr);  // it complains of names that are no UTF-8
    google::protobuf::FileDescriptorSet files;
    std::ifstream in(LOWTIDE_DESCRIPTORS, std::ios::binary);
    if (!files.ParseFromIstream(&in) || pool_.BuildFile(files.file(0)) == nullptr) std::abort();
    model_ = factory_.GetPrototype(pool_.FindMessageTypeByName("onnx.ModelProto"));
  }
  std::unique_ptr<Message> model() const { return std::unique_ptr<Message>(model_->New()); }

 private:
  google::protobuf::DescriptorPool pool_;
  google::protobuf::DynamicMessageFactory factory_;
  const Message* model_;
};

const Schema& schema() {
  static const Schema* schema = new Schema();
  return *schema;
}

void collect(Message& message, std::vector<Message*>& out) {
  out.push_back(&message);
  const Reflection& r = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  r.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (!field->is_repeated()) {
      collect(*r.MutableMessage(&message, field), out);
      continue;
    }
    for (int i = 0; i < r.FieldSize(message, field); ++i) collect(*r.MutableRepeatedMessage(&message, field, i), out);
  }
}

class Mutation {
 public:
  Mutation(Message& model, unsigned seed) : model_(model), random_(seed) {}

  void run() {
    refresh();
    learn();
    for (int steps = 1 + below(kMostSteps); steps > 0; --steps) {
      step();
      refresh();
    }
  }

 private:
  // What was seen in other inputs.
  struct Memory {
    std::map<const FieldDescriptor*, std::vector<std::string>> words;
    std::map<const Descriptor*, std::vector<std::unique_ptr<Message>>> parts;
  };
  static Memory& memory() {
    static Memory* memory = new Memory();
    return *memory;
  }

  void refresh() {
    all_.clear();
    collect(model_, all_);
  }

  int below(size_t count) { return static_cast<int>(random_() % count); }
  bool one_in(int n) { return below(static_cast<size_t>(n)) == 0; }

  template <typename List, typename Item>
  void keep(List& list, size_t most, Item item) {
    if (list.size() < most) {
      list.push_back(std::move(item));
    } else {
      list[static_cast<size_t>(below(list.size()))] = std::move(item);
    }
  }

  void learn() {
    const Message& part = *all_[static_cast<size_t>(below(all_.size()))];
    if (&part != &model_ && part.ByteSizeLong() <= kMaxPart) {
      std::unique_ptr<Message> copy(part.New());
      copy->CopyFrom(part);
      keep(memory().parts[part.GetDescriptor()], kMaxParts, std::move(copy));
    }
    for (const Message* message : all_) {
      const Reflection& r = *message->GetReflection();
      std::vector<const FieldDescriptor*> fields;
      r.ListFields(*message, &fields);
      for (const FieldDescriptor* field : fields) {
        if (field->cpp_type() != FieldDescriptor::CPPTYPE_STRING) continue;
        std::string word = !field->is_repeated() ? r.GetString(*message, field)
                                                 : r.GetRepeatedString(*message, field, below(size(*message, field)));
        auto& words = memory().words[field];
        if (word.size() <= 64 && std::find(words.begin(), words.end(), word) == words.end()) {
          keep(words, kMaxWords, std::move(word));
        }
      }
    }
  }

  static size_t size(const Message& message, const FieldDescriptor* field) {
    return static_cast<size_t>(message.GetReflection()->FieldSize(message, field));
  }

  void step() {
    Message& message = choose();
    const Descriptor& type = *message.GetDescriptor();
    std::vector<const FieldDescriptor*> fields;
    message.GetReflection()->ListFields(message, &fields);
    // Mostly what is there; now and then a field that is not.
    const FieldDescriptor* field = fields.empty() || one_in(5)
                                       ? type.field(below(static_cast<size_t>(type.field_count())))
                                       : fields[static_cast<size_t>(below(fields.size()))];
    field->is_repeated() ? change_repeated(message, field) : change_single(message, field);
    if (type.name() == "TensorProto" && !one_in(8)) fit(message);
  }

  // Nodes, attributes and tensors are changed more often than the many names.
  Message& choose() {
    for (int tries = 0; tries < 8; ++tries) {
      Message& message = *all_[static_cast<size_t>(below(all_.size()))];
      const std::string& name = message.GetDescriptor()->name();
      if (name != "StringStringEntryProto" && name != "ModelProto") return message;
    }
    return *all_[static_cast<size_t>(below(all_.size()))];
  }

  void change_single(Message& message, const FieldDescriptor* field) {
    const Reflection& r = *message.GetReflection();
    if (one_in(12)) {
      r.ClearField(&message, field);
      return;
    }
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_MESSAGE:
        replace(*r.MutableMessage(&message, field));
        break;
      case FieldDescriptor::CPPTYPE_STRING:
        r.SetString(&message, field, word(field, r.GetString(message, field)));
        break;
      case FieldDescriptor::CPPTYPE_ENUM:
        r.SetEnumValue(&message, field, number(0, 25));
        break;
      case FieldDescriptor::CPPTYPE_INT32:
        r.SetInt32(&message, field, static_cast<int32_t>(number(r.GetInt32(message, field), 25)));
        break;
      case FieldDescriptor::CPPTYPE_INT64:
        r.SetInt64(&message, field, number(r.GetInt64(message, field)));
        break;
      case FieldDescriptor::CPPTYPE_FLOAT:
        r.SetFloat(&message, field, static_cast<float>(real()));
        break;
      default:
        r.ClearField(&message, field);
    }
  }

  void change_repeated(Message& message, const FieldDescriptor* field) {
    const Reflection& r = *message.GetReflection();
    const int count = r.FieldSize(message, field);
    const int at = count > 0 ? below(static_cast<size_t>(count)) : 0;
    if (count > 1 && one_in(6)) return r.SwapElements(&message, field, at, below(static_cast<size_t>(count)));
    if (count > 0 && one_in(6)) {
      r.SwapElements(&message, field, at, count - 1);
      return r.RemoveLast(&message, field);
    }
    const bool add = count == 0 || one_in(4);
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_MESSAGE:
        if (add) {
          Message& added = *r.AddMessage(&message, field);
          if (count > 0) added.CopyFrom(r.GetRepeatedMessage(message, field, at));
          if (count == 0 || one_in(2)) replace(added);
        } else {
          replace(*r.MutableRepeatedMessage(&message, field, at));
        }
        break;
      case FieldDescriptor::CPPTYPE_STRING:
        add ? r.AddString(&message, field, word(field, {}))
            : r.SetRepeatedString(&message, field, at, word(field, r.GetRepeatedString(message, field, at)));
        break;
      case FieldDescriptor::CPPTYPE_INT32: {
        const auto value = static_cast<int32_t>(number(add ? 0 : r.GetRepeatedInt32(message, field, at)));
        add ? r.AddInt32(&message, field, value) : r.SetRepeatedInt32(&message, field, at, value);
        break;
      }
      case FieldDescriptor::CPPTYPE_INT64: {
        const int64_t value = number(add ? 0 : r.GetRepeatedInt64(message, field, at));
        add ? r.AddInt64(&message, field, value) : r.SetRepeatedInt64(&message, field, at, value);
        break;
      }
      case FieldDescriptor::CPPTYPE_UINT64: {
        const auto value = static_cast<uint64_t>(number(0));
        add ? r.AddUInt64(&message, field, value) : r.SetRepeatedUInt64(&message, field, at, value);
        break;
      }
      case FieldDescriptor::CPPTYPE_FLOAT: {
        const auto value = static_cast<float>(real());
        add ? r.AddFloat(&message, field, value) : r.SetRepeatedFloat(&message, field, at, value);
        break;
      }
      case FieldDescriptor::CPPTYPE_DOUBLE:
        add ? r.AddDouble(&message, field, real()) : r.SetRepeatedDouble(&message, field, at, real());
        break;
      default:
        break;
    }
  }

  // By one of the same kind, from this model or from another.
  void replace(Message& message) {
    refresh();  // to set one member of a oneof was to delete another
    const Descriptor* type = message.GetDescriptor();
    std::unique_ptr<Message> copy(message.New());
    const auto& parts = memory().parts[type];
    if (!parts.empty() && one_in(2)) {
      copy->CopyFrom(*parts[static_cast<size_t>(below(parts.size()))]);
    } else {
      std::vector<const Message*> own;
      for (const Message* other : all_)
        if (other != &message && other->GetDescriptor() == type) own.push_back(other);
      if (own.empty()) return;
      copy->CopyFrom(*own[static_cast<size_t>(below(own.size()))]);
    }
    if (copy->ByteSizeLong() <= kMaxPart) message.CopyFrom(*copy);
  }

  std::string word(const FieldDescriptor* field, std::string old) {
    if (field->type() == FieldDescriptor::TYPE_BYTES && (!old.empty() || one_in(2))) return noise(std::move(old));
    // A name of this model, so that the graph stays connected.
    if ((field->name() == "input" || field->name() == "output") && !one_in(4)) {
      for (int tries = 0; tries < 8; ++tries) {
        const Message& message = *all_[static_cast<size_t>(below(all_.size()))];
        const auto* type = message.GetDescriptor();
        const FieldDescriptor* from = type->FindFieldByName(type->name() == "NodeProto" ? "output" : "name");
        if (from == nullptr || from->cpp_type() != FieldDescriptor::CPPTYPE_STRING) continue;
        const Reflection& r = *message.GetReflection();
        if (!from->is_repeated()) return r.GetString(message, from);
        const int count = r.FieldSize(message, from);
        if (count > 0) return r.GetRepeatedString(message, from, below(static_cast<size_t>(count)));
      }
    }
    const auto& words = memory().words[field];
    if (!words.empty() && !one_in(10)) return words[static_cast<size_t>(below(words.size()))];
    return one_in(3) ? std::string() : noise(std::move(old));
  }

  std::string noise(std::string old) {
    const size_t room = old.size() + 16;
    std::string bytes = std::move(old);
    const size_t used = bytes.size();
    bytes.resize(room);
    bytes.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(bytes.data()), used, room));
    return bytes;
  }

  // Another number; below `most`, when that is given, nearly always.
  int64_t number(int64_t old, size_t most = 0) {
    if (most > 0 && !one_in(20)) return below(most);
    switch (below(8)) {
      case 0:
        return old < INT64_MAX ? old + 1 : old;
      case 1:
        return old > INT64_MIN ? old - 1 : old;
      case 2:
        return -1 - below(4);
      case 3: {
        const int64_t value = kNumbers[static_cast<size_t>(below(kNumbers.size()))];
        return one_in(3) ? -value : value;
      }
      default:
        return below(9);
    }
  }
  double real() { return one_in(2) ? kReals[static_cast<size_t>(below(kReals.size()))] : (below(2001) - 1000) / 100.0; }

  // Gives a tensor as many bytes as its type and shape ask for, unless that is many.
  void fit(Message& tensor) {
    static constexpr std::array<uint8_t, 25> kBits = {0,  32, 8,   8,  16, 16, 32, 64, 0, 8, 16, 64, 32,
                                                      64, 64, 128, 16, 8,  8,  8,  8,  4, 4, 4,  8};
    const Reflection& r = *tensor.GetReflection();
    const Descriptor& type = *tensor.GetDescriptor();
    const auto* dims = type.FindFieldByName("dims");
    const auto* raw = type.FindFieldByName("raw_data");
    const int dtype = r.GetInt32(tensor, type.FindFieldByName("data_type"));
    if (dtype <= 0 || dtype >= static_cast<int>(kBits.size()) || kBits[static_cast<size_t>(dtype)] == 0) return;
    uint64_t elements = 1;
    for (int i = 0; i < r.FieldSize(tensor, dims); ++i) {
      const int64_t dim = r.GetRepeatedInt64(tensor, dims, i);
      if (dim < 0 || dim > static_cast<int64_t>(kMaxTensor)) return;
      elements *= static_cast<uint64_t>(dim);
      if (elements > kMaxTensor) return;
    }
    for (const char* name : {"float_data", "int32_data", "int64_data", "double_data", "uint64_data", "string_data"})
      r.ClearField(&tensor, type.FindFieldByName(name));
    std::string bytes = r.GetString(tensor, raw);
    const std::string pattern = bytes.empty() ? std::string("\1\0\0\0\0\0\0\0", 8) : bytes;
    const size_t old = bytes.size();
    bytes.resize((elements * kBits[static_cast<size_t>(dtype)] + 7) / 8);
    for (size_t i = old; i < bytes.size(); ++i) bytes[i] = pattern[i % pattern.size()];
    r.SetString(&tensor, raw, bytes);
  }

  Message& model_;
  std::minstd_rand random_;
  std::vector<Message*> all_;
};

// The new size, or 0 when the bytes are not a model or became too many.
size_t mutate_model(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  std::unique_ptr<Message> model = schema().model();
  if (!model->ParsePartialFromArray(data, static_cast<int>(size))) return 0;
  Mutation(*model, seed).run();
  const std::string bytes = model->SerializePartialAsString();
  if (bytes.size() > max_size) return 0;
  std::copy(bytes.begin(), bytes.end(), data);
  return bytes.size();
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  constexpr unsigned kAsBytes = 16;  // one of so many
  if (seed % kAsBytes != 0) {
    if (size_t mutated = mutate_model(data, size, max_size, seed / kAsBytes)) return mutated;
  }
  return LLVMFuzzerMutate(data, size, max_size);
}
