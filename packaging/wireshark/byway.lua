-- Byway's packets in Wireshark: docs/wire.md, version 1.
-- Copy it to ~/.local/lib/wireshark/plugins, or start `wireshark -X lua_script:packaging/wireshark/byway.lua`.
-- What is sealed stays so, but in captures of simulated worlds: there, messages can be read.

local byway = Proto("byway", "Byway")

local kinds = {
  [4] = "Initiation", [5] = "Response", [6] = "Cookie", [7] = "Source packet", [8] = "Messages", [9] = "Envelope",
  [10] = "Transit messages", [11] = "Transit envelope", [15] = "Grease",
}
local roles = {
  [0] = "copy", [1] = "resent copy", [2] = "relayed copy", [3] = "forwarded", [4] = "cached repair", [5] = "cooperative repair",
  [6] = "cooperative answer",
}
local types = {
  [1] = "register", [2] = "register reply", [3] = "aliases", [4] = "aliases reply", [5] = "unregister", [6] = "unregister reply",
  [7] = "offer", [8] = "offer reply", [16] = "in-stream repair", [17] = "cross-stream repair", [18] = "NACK", [19] = "copy NACK",
  [20] = "ACK", [21] = "cooperative request", [22] = "cooperative refusal", [23] = "confirm", [24] = "report", [25] = "outage", [32] = "probe",
  [33] = "probe reply", [34] = "path challenge", [35] = "path response", [36] = "relayed packet", [37] = "candidates", [38] = "close",
  [39] = "inter-relay packet", [40] = "transit request", [41] = "transit reply",
}
local fragments = { [0] = "whole", [1] = "first of two", [2] = "second of two" }

local f = {
  kind = ProtoField.uint8("byway.kind", "Kind", base.DEC, kinds),
  version = ProtoField.uint8("byway.version", "Version"),
  shard = ProtoField.uint8("byway.shard", "Shard"),
  sender = ProtoField.uint32("byway.sender", "Sender index", base.HEX),
  receiver = ProtoField.uint32("byway.receiver", "Receiver index", base.HEX),
  flow = ProtoField.uint16("byway.flow", "Flow"),
  sequence = ProtoField.uint32("byway.sequence", "Sequence number (low 32 bits)"),
  flags = ProtoField.uint8("byway.flags", "Flags", base.HEX),
  epoch = ProtoField.uint8("byway.epoch", "Epoch", base.DEC, nil, 0x03),
  fragment = ProtoField.uint8("byway.fragment", "Fragment", base.DEC, fragments, 0x0c),
  role = ProtoField.uint8("byway.role", "Role", base.DEC, roles),
  counter = ProtoField.uint32("byway.counter", "Counter (low 32 bits)"),
  alias = ProtoField.uint16("byway.alias", "Alias"),
  sealed = ProtoField.bytes("byway.sealed", "Sealed"),
  tag = ProtoField.bytes("byway.tag", "Tag"),
  message = ProtoField.uint8("byway.message", "Message", base.DEC, types),
  body = ProtoField.bytes("byway.body", "Body"),
}
for _, field in pairs(f) do table.insert(byway.fields, field) end

local TAG = 16

-- A row of messages, if the bytes can be one; else nothing, as where they are encrypted.
local function messages(buffer)
  local found, at, is_known = {}, 0, false
  while at < buffer:len() do
    if at + 3 > buffer:len() then return nil end
    local kind, length = buffer(at, 1):uint(), buffer(at + 1, 2):uint()
    if at + 3 + length > buffer:len() then return nil end
    is_known = is_known or types[kind] ~= nil
    table.insert(found, { kind = kind, from = at, length = length })
    at = at + 3 + length
  end
  return is_known and found or nil
end

local function add_flags(tree, range)
  local flags = tree:add(f.flags, range)
  flags:add(f.epoch, range)
  flags:add(f.fragment, range)
end

local function source(buffer, tree)
  tree:add(f.receiver, buffer(1, 4))
  tree:add(f.flow, buffer(5, 2))
  tree:add(f.sequence, buffer(7, 4))
  add_flags(tree, buffer(11, 1))
  tree:add(f.sealed, buffer(12, buffer:len() - 12 - TAG))
  tree:add(f.tag, buffer(buffer:len() - TAG))
  return string.format("flow %d, packet %d", buffer(5, 2):uint(), buffer(7, 4):uint())
end

local function envelope(buffer, tree)
  tree:add(f.role, buffer(1, 1))
  tree:add(f.receiver, buffer(2, 4))
  tree:add(f.counter, buffer(6, 4))
  tree:add(f.alias, buffer(10, 2))
  tree:add(f.sequence, buffer(12, 4))
  add_flags(tree, buffer(16, 1))
  tree:add(f.sealed, buffer(17, buffer:len() - 17 - TAG))
  tree:add(f.tag, buffer(buffer:len() - TAG))
  local role = roles[buffer(1, 1):uint()] or "unknown role"
  return string.format("%s, alias %d, packet %d", role, buffer(10, 2):uint(), buffer(12, 4):uint())
end

local function message_packet(buffer, tree)
  tree:add(f.receiver, buffer(1, 4))
  tree:add(f.counter, buffer(5, 4))
  local inside = buffer(9, buffer:len() - 9 - TAG):tvb()
  local row, names = messages(inside), {}
  if not row then
    tree:add(f.sealed, inside())
  else
    for _, message in ipairs(row) do
      local one = tree:add(f.message, inside(message.from, 1))
      if message.length > 0 then one:add(f.body, inside(message.from + 3, message.length)) end
      table.insert(names, types[message.kind] or "unknown")
    end
  end
  tree:add(f.tag, buffer(buffer:len() - TAG))
  return table.concat(names, ", ")
end

local function initiation(buffer, tree)
  tree:add(f.version, buffer(1, 1))
  tree:add(f.shard, buffer(4, 1))
  tree:add(f.sender, buffer(8, 4))
  return ""
end

local function addressed(buffer, tree)
  tree:add(f.receiver, buffer(4, 4))
  return ""
end

-- By kind: the shortest packet, and what reads it.
local readers = {
  [4] = { 12, initiation }, [5] = { 8, addressed }, [6] = { 8, addressed }, [7] = { 33, source }, [8] = { 25, message_packet },
  [9] = { 33, envelope }, [10] = { 25, message_packet }, [11] = { 33, envelope },
}

function byway.dissector(buffer, packet, root)
  if buffer:len() == 0 or not kinds[buffer(0, 1):uint()] then return 0 end
  local kind = buffer(0, 1):uint()
  local reader = readers[kind]
  if reader and buffer:len() < reader[1] then return 0 end
  packet.cols.protocol = "Byway"
  local tree = root:add(byway, buffer())
  tree:add(f.kind, buffer(0, 1))
  local words = reader and reader[2](buffer, tree) or ""
  packet.cols.info = words == "" and kinds[kind] or kinds[kind] .. ": " .. words
  return buffer:len()
end

DissectorTable.get("udp.port"):add(4600, byway)
